import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.Stores;

/**
 * The clients of drill/streams.ts: a windowed count by Kafka Streams with exactly_once_v2. The first argument is the role:
 *
 * <pre>
 *   produce writes numbered records with keys and timestamps that follow from their numbers, until its input ends
 *   count   counts the records of each key and window, until its input ends
 *   read    reads the committed records of TOPIC to the end that there is when it starts, and prints them
 * </pre>
 *
 * <p>The environment: BOOTSTRAP, TOPIC, OUTPUT, APPLICATION, STATE (a folder), RATE (records per second), KEYS, WINDOW_MS.
 * Lines on standard output: {@code ready}; {@code produced N}; {@code failed N ERROR}; {@code replaced ERROR} for a stream
 * thread that died and was replaced; {@code read PARTITION KEY VALUE}.
 */
public final class WindowCounts {
    private static final String BOOTSTRAP = System.getenv("BOOTSTRAP");
    private static final String TOPIC = System.getenv("TOPIC");
    private static final long WINDOW_MS = Long.parseLong(System.getenv().getOrDefault("WINDOW_MS", "10000"));
    private static final int KEYS = Integer.parseInt(System.getenv().getOrDefault("KEYS", "20"));
    private static final AtomicBoolean ENDS = new AtomicBoolean();

    /** Of the first record; any time will do that retention does not reach. */
    private static final long EPOCH_MS = System.currentTimeMillis();
    /** Event time between two records. */
    private static final long STEP_MS = 20;
    private static final Duration GRACE = Duration.ofDays(1);
    private static final int READ_SECONDS_MAX = 120;
    private static final int CLOSE_SECONDS_MAX = 60;

    public static void main(String[] args) throws Exception {
        Thread input = new Thread(() -> {
            Scanner scanner = new Scanner(System.in);
            while (scanner.hasNextLine()) scanner.nextLine();
            ENDS.set(true);
        });
        input.setDaemon(true);
        input.start();
        switch (args[0]) {
            case "produce" -> produce();
            case "count" -> count();
            case "read" -> read();
            default -> throw new IllegalArgumentException(args[0]);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void produce() throws Exception {
        int rate = Integer.parseInt(System.getenv("RATE"));
        AtomicLong failed = new AtomicLong();
        KafkaProducer<String, String> producer = new KafkaProducer<>(producerProperties());
        say("ready");
        long started = System.nanoTime();
        long number = 0;
        for (; !ENDS.get(); number++) {
            long due = started + number * 1_000_000_000L / rate;
            while (System.nanoTime() < due) Thread.sleep(1);
            long at = EPOCH_MS + number * STEP_MS;
            long sequence = number;
            // The key of the count is in the value: Streams repartitions by it.
            String value = "key" + (number * 7 % KEYS) + "/" + at / WINDOW_MS * WINDOW_MS + "/" + number;
            producer.send(new ProducerRecord<>(TOPIC, null, at, "" + number, value), (metadata, error) -> {
                if (error == null) return;
                failed.incrementAndGet();
                say("failed " + sequence + " " + error);
            });
        }
        producer.flush();
        producer.close();
        say("produced " + (number - failed.get()));
    }

    private static void count() throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(TOPIC, Consumed.with(Serdes.String(), Serdes.String()))
                .selectKey((number, value) -> value.substring(0, value.indexOf('/')))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(WINDOW_MS), GRACE))
                .count(Materialized.<String, Long>as(Stores.inMemoryWindowStore(
                                "counts", GRACE.plusMillis(WINDOW_MS), Duration.ofMillis(WINDOW_MS), false))
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long()))
                .toStream()
                .map((window, count) -> KeyValue.pair(window.key() + "/" + window.window().start(), "" + count))
                .to(System.getenv("OUTPUT"), Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), streamsProperties());
        streams.setUncaughtExceptionHandler(error -> {
            say("replaced " + shown(error));
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        say("ready");
        while (!ENDS.get()) Thread.sleep(50);
        streams.close(Duration.ofSeconds(CLOSE_SECONDS_MAX));
    }

    private static void read() {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumerProperties())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo one : consumer.partitionsFor(TOPIC)) partitions.add(new TopicPartition(TOPIC, one.partition()));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = new HashMap<>(consumer.endOffsets(partitions));
            long until = System.currentTimeMillis() + READ_SECONDS_MAX * 1_000L;
            while (System.currentTimeMillis() < until) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    say("read " + record.partition() + " " + record.key() + " " + record.value());
                }
                if (partitions.stream().allMatch(one -> consumer.position(one) >= ends.get(one))) return;
            }
            throw new IllegalStateException("the end of " + TOPIC + " is not reached: " + ends);
        }
    }

    private static Properties streamsProperties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", BOOTSTRAP);
        properties.put("application.id", System.getenv("APPLICATION"));
        properties.put("state.dir", System.getenv("STATE"));
        properties.put("processing.guarantee", StreamsConfig.EXACTLY_ONCE_V2);
        properties.put("num.stream.threads", "2");
        properties.put("replication.factor", "1");
        // Every update becomes a record of the output, so that none can hide behind a later one.
        properties.put("statestore.cache.max.bytes", "0");
        properties.put("repartition.purge.interval.ms", "5000");
        properties.put("consumer.session.timeout.ms", "10000");
        properties.put("consumer.heartbeat.interval.ms", "1000");
        properties.put("reconnect.backoff.max.ms", "200");
        return properties;
    }

    private static Properties producerProperties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", BOOTSTRAP);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("delivery.timeout.ms", "600000");
        properties.put("request.timeout.ms", "5000");
        properties.put("linger.ms", "5");
        properties.put("reconnect.backoff.max.ms", "200");
        return properties;
    }

    private static Properties consumerProperties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", BOOTSTRAP);
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        properties.put("isolation.level", "read_committed");
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        return properties;
    }

    private static String shown(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable one = error; one != null; one = one.getCause()) text.append(one).append(" < ");
        return text.toString().replace('\n', ' ');
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }
}
