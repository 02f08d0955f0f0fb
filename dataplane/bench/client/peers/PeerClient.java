import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's Java client under the same loads as ours. One JSON object on standard output.
 *
 * <pre>
 * flow    BROKER TOPIC PARTITIONS SECONDS RECORDS (of a partition; librdkafka wants to be told)
 * produce BROKER TOPIC RECORDS RECORD_BYTES BATCH_BYTES LINGER_MS BUFFER_BYTES
 * consume BROKER TOPIC PARTITIONS RECORDS
 * rate    as in RateLoad
 * stream  as in StreamLoad
 * </pre>
 */
public final class PeerClient {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long SILENCE_MAX_NANOS = 30_000_000_000L;

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "flow" -> flow(arguments);
            case "produce" -> produce(arguments);
            case "consume" -> consume(arguments);
            case "rate" -> RateLoad.run(arguments);
            case "stream" -> StreamLoad.run(arguments);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    /** KAFKA-7548: all partitions but one, chosen at random, are paused before each poll. */
    private static void flow(String[] arguments) {
        List<TopicPartition> partitions = partitions(arguments[2], arguments[3]);
        double seconds = Double.parseDouble(arguments[4]);
        Properties properties = consumerProperties(arguments[1]);
        properties.put("max.poll.records", "1");
        Random random = new Random(7548);
        long records = 0;
        long bytes = 0;
        long polls = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long begin = System.nanoTime();
            while (System.nanoTime() - begin < seconds * 1e9) {
                TopicPartition chosen = partitions.get(random.nextInt(partitions.size()));
                List<TopicPartition> others = new ArrayList<>(partitions);
                others.remove(chosen);
                consumer.pause(others);
                consumer.resume(List.of(chosen));
                polls++;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    records++;
                    bytes += record.value().length;
                    if (record.offset() + 1 == ends.get(chosen)) {
                        consumer.seekToBeginning(List.of(chosen));
                    }
                }
            }
            double elapsed = (System.nanoTime() - begin) / 1e9;
            System.out.printf(
                "{\"records\":%d,\"bytes\":%d,\"polls\":%d,\"seconds\":%f,\"fetch_requests\":%.0f,"
                    + "\"received_bytes\":%.0f}%n",
                records, bytes, polls, elapsed,
                metric(consumer.metrics(), "fetch-total", "consumer-fetch-manager-metrics"),
                metric(consumer.metrics(), "incoming-byte-total", "consumer-metrics"));
        }
    }

    private static void produce(String[] arguments) {
        String topic = arguments[2];
        long records = Long.parseLong(arguments[3]);
        int recordBytes = Integer.parseInt(arguments[4]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[1]);
        properties.put("batch.size", arguments[5]);
        properties.put("linger.ms", arguments[6]);
        properties.put("buffer.memory", arguments[7]);
        properties.put("acks", "all");
        properties.put("enable.idempotence", "true");
        AtomicLong failed = new AtomicLong();
        byte[][] values = new byte[64][recordBytes];
        Random random = new Random(3);
        for (byte[] value : values) {
            random.nextBytes(value);
        }
        long begin = System.nanoTime();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            begin = System.nanoTime();
            for (long number = 0; number < records; number++) {
                byte[] value = values[(int) (number % values.length)];
                producer.send(new ProducerRecord<>(topic, value), (metadata, error) -> {
                    if (error != null) {
                        failed.incrementAndGet();
                    }
                });
            }
            producer.flush();
        }
        double elapsed = (System.nanoTime() - begin) / 1e9;
        print(records - failed.get(), (records - failed.get()) * recordBytes, elapsed);
    }

    private static void consume(String[] arguments) {
        List<TopicPartition> partitions = partitions(arguments[2], arguments[3]);
        long wanted = Long.parseLong(arguments[4]);
        long records = 0;
        long bytes = 0;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(consumerProperties(arguments[1]))) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long begin = System.nanoTime();
            long last = begin;
            while (records < wanted) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(POLL);
                for (ConsumerRecord<byte[], byte[]> record : polled) {
                    records++;
                    bytes += record.value().length;
                }
                long now = System.nanoTime();
                if (!polled.isEmpty()) {
                    last = now;
                } else if (now - last > SILENCE_MAX_NANOS) {
                    throw new IllegalStateException("only " + records + " records came");
                }
            }
            print(records, bytes, (System.nanoTime() - begin) / 1e9);
        }
    }

    static Properties consumerProperties(String broker) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", broker);
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        return properties;
    }

    static List<TopicPartition> partitions(String topic, String count) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (int index = 0; index < Integer.parseInt(count); index++) {
            partitions.add(new TopicPartition(topic, index));
        }
        return partitions;
    }

    static double metric(Map<MetricName, ? extends Metric> metrics, String name, String group) {
        for (Metric metric : metrics.values()) {
            MetricName found = metric.metricName();
            if (found.name().equals(name) && found.group().equals(group)
                    && !found.tags().containsKey("topic")) {
                return ((Number) metric.metricValue()).doubleValue();
            }
        }
        throw new IllegalStateException("no metric " + name);
    }

    private static void print(long records, long bytes, double seconds) {
        System.out.printf("{\"records\":%d,\"bytes\":%d,\"seconds\":%f}%n", records, bytes, seconds);
    }
}
