import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Scanner;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The clients of drill/exactly-once.ts. The first argument is the role:
 *
 * <pre>
 *   produce   writes transactions to the topic, commits or aborts each, until its input ends
 *   transform copies records from one topic to another, exactly once, until its input ends
 *   die       opens a transaction, writes to each partition and ends without a word
 *   read      reads committed records until its input ends, goes on to the end that there is then, and prints them
 * </pre>
 *
 * <p>The environment has the rest: BOOTSTRAP, TOPIC, OUTPUT, GROUP, NAME, SEED, PARTITIONS, TIMEOUT_MS. A record's value is
 * {@code producer/sequence/transaction}; the sequence counts the producer's records of the partition. Its key is {@code
 * producer/sequence}, so that compaction keeps every record that is not aborted. On the standard output, one a line: {@code
 * begin T N}, {@code sent T PARTITION SEQUENCE}, {@code committed T}, {@code aborted T}, {@code unknown T ERROR}; {@code
 * copied N}, {@code uncopied N}, {@code lost ERROR}; {@code read PARTITION OFFSET VALUE TIME}, {@code end PARTITION STABLE HIGH
 * POSITION}, {@code uncommitted N}; {@code ready}.
 */
public final class ExactlyOnce {
    private static final String BOOTSTRAP = System.getenv("BOOTSTRAP");
    private static final String TOPIC = System.getenv("TOPIC");
    private static final String NAME = System.getenv().getOrDefault("NAME", "client");
    private static final int PARTITIONS = Integer.parseInt(System.getenv().getOrDefault("PARTITIONS", "3"));
    private static final String TIMEOUT_MS = System.getenv().getOrDefault("TIMEOUT_MS", "10000");
    private static final Random CHANCE = new Random(Long.parseLong(System.getenv().getOrDefault("SEED", "1")));
    private static final AtomicBoolean ENDS = new AtomicBoolean();

    private static final int RECORDS_MAX = 20;
    private static final double ABORTS = 0.2;
    /** How often a commit or an initialisation whose answer did not come in time is asked for again. */
    private static final int RETRIES_MAX = 30;
    private static final int PAUSE_MS_MAX = 30;
    private static final int SESSION_MS = 6_000;
    private static final int READ_SECONDS_MAX = 90;

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
            case "transform" -> transform();
            case "die" -> die();
            case "read" -> read();
            default -> throw new IllegalArgumentException(args[0]);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void produce() throws Exception {
        int[] sequences = new int[PARTITIONS];
        int transaction = 0;
        KafkaProducer<String, String> producer = producer(NAME);
        say("ready");
        while (!ENDS.get()) {
            transaction += 1;
            boolean isMeant = CHANCE.nextDouble() >= ABORTS;
            try {
                begin(producer, transaction, sequences);
                if (isMeant) retried(producer::commitTransaction);
                else retried(producer::abortTransaction);
                say((isMeant ? "committed " : "aborted ") + transaction);
            } catch (KafkaException | ExecutionException error) {
                say("unknown " + transaction + " " + shown(error));
                // Its successor ends what is open, one way or the other.
                producer.close(Duration.ZERO);
                producer = producer(NAME);
            }
            Thread.sleep(CHANCE.nextInt(PAUSE_MS_MAX));
        }
        producer.close(Duration.ofSeconds(10));
    }

    private static void begin(KafkaProducer<String, String> producer, int transaction, int[] sequences) throws Exception {
        int count = 1 + CHANCE.nextInt(RECORDS_MAX);
        producer.beginTransaction();
        say("begin " + transaction + " " + count);
        List<java.util.concurrent.Future<?>> sent = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            int partition = CHANCE.nextInt(PARTITIONS);
            int sequence = sequences[partition]++;
            say("sent " + transaction + " " + partition + " " + sequence);
            String key = NAME + "/" + sequence;
            sent.add(producer.send(new ProducerRecord<>(TOPIC, partition, key, key + "/" + transaction)));
        }
        for (java.util.concurrent.Future<?> one : sent) one.get();
    }

    private static void transform() throws Exception {
        String output = System.getenv("OUTPUT");
        KafkaProducer<String, String> producer = producer(NAME);
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumerProperties(System.getenv("GROUP")));
        consumer.subscribe(List.of(TOPIC), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                say("assigned " + partitions.size());
            }
        });
        say("ready");
        while (!ENDS.get()) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
            if (records.isEmpty()) continue;
            try {
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(output, record.partition(), record.key(), record.value()));
                    TopicPartition partition = new TopicPartition(TOPIC, record.partition());
                    offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
                }
                Thread.sleep(CHANCE.nextInt(PAUSE_MS_MAX));
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (CHANCE.nextDouble() < ABORTS) {
                    retried(producer::abortTransaction);
                    say("uncopied " + records.count());
                    rewind(consumer);
                } else {
                    retried(producer::commitTransaction);
                    say("copied " + records.count());
                }
            } catch (KafkaException error) {
                say("lost " + shown(error));
                producer = recovered(producer);
                rewind(consumer);
            }
        }
        consumer.close();
        producer.close(Duration.ofSeconds(10));
    }

    /** Aborts what is open; where that fails, a new producer does it by its initialisation. */
    private static KafkaProducer<String, String> recovered(KafkaProducer<String, String> producer) throws Exception {
        try {
            producer.abortTransaction();
            return producer;
        } catch (KafkaException error) {
            producer.close(Duration.ZERO);
            return producer(NAME);
        }
    }

    /** Reads again from what is committed: what was read since was not copied. */
    private static void rewind(KafkaConsumer<String, String> consumer) throws Exception {
        for (int tries = 0; ; tries++) {
            try {
                Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment(), Duration.ofSeconds(5));
                for (TopicPartition partition : consumer.assignment()) {
                    OffsetAndMetadata offset = committed.get(partition);
                    if (offset == null) consumer.seekToBeginning(List.of(partition));
                    else consumer.seek(partition, offset);
                }
                return;
            } catch (KafkaException error) {
                if (tries >= RETRIES_MAX) throw error;
                Thread.sleep(200);
            }
        }
    }

    private static void die() throws Exception {
        KafkaProducer<String, String> producer = producer(NAME);
        producer.beginTransaction();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            String key = NAME + "/" + partition;
            producer.send(new ProducerRecord<>(TOPIC, partition, key, key + "/1")).get();
        }
        say("left");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void read() {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumerProperties(null));
                KafkaConsumer<String, String> uncommitted = new KafkaConsumer<>(uncommittedProperties())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (PartitionInfo one : consumer.partitionsFor(TOPIC)) partitions.add(new TopicPartition(TOPIC, one.partition()));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            say("ready");
            while (!ENDS.get()) sayRead(consumer);
            Map<TopicPartition, Long> stable = consumer.endOffsets(partitions);
            Map<TopicPartition, Long> high = uncommitted.endOffsets(partitions);
            long until = System.currentTimeMillis() + READ_SECONDS_MAX * 1_000L;
            while (System.currentTimeMillis() < until && !isAt(consumer, stable)) sayRead(consumer);
            for (TopicPartition one : partitions) {
                say("end " + one.partition() + " " + stable.get(one) + " " + high.get(one) + " " + consumer.position(one));
            }
            uncommitted.assign(partitions);
            uncommitted.seekToBeginning(partitions);
            long count = 0;
            until = System.currentTimeMillis() + READ_SECONDS_MAX * 1_000L;
            while (System.currentTimeMillis() < until && !isAt(uncommitted, high)) {
                count += uncommitted.poll(Duration.ofMillis(200)).count();
            }
            if (isAt(uncommitted, high)) say("uncommitted " + count);
        }
    }

    private static void sayRead(KafkaConsumer<String, String> consumer) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
            say("read " + record.partition() + " " + record.offset() + " " + record.value() + " " + record.timestamp());
        }
    }

    private static boolean isAt(KafkaConsumer<String, String> consumer, Map<TopicPartition, Long> ends) {
        return ends.entrySet().stream().allMatch(end -> consumer.position(end.getKey()) >= end.getValue());
    }

    private interface Ending {
        void run();
    }

    /** A commit whose answer does not come in time is asked for again: only then its outcome is known. */
    private static void retried(Ending ending) {
        for (int tries = 0; ; tries++) {
            try {
                ending.run();
                return;
            } catch (TimeoutException | InterruptException error) {
                if (tries >= RETRIES_MAX) throw error;
            }
        }
    }

    private static KafkaProducer<String, String> producer(String transactionalId) throws InterruptedException {
        for (int tries = 0; ; tries++) {
            KafkaProducer<String, String> producer = new KafkaProducer<>(producerProperties(transactionalId));
            try {
                producer.initTransactions();
                return producer;
            } catch (KafkaException error) {
                producer.close(Duration.ZERO);
                if (tries >= RETRIES_MAX) throw error;
                say("lost " + shown(error));
                Thread.sleep(500);
            }
        }
    }

    private static Properties producerProperties(String transactionalId) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", BOOTSTRAP);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("transactional.id", transactionalId);
        properties.put("transaction.timeout.ms", TIMEOUT_MS);
        properties.put("max.block.ms", "15000");
        properties.put("delivery.timeout.ms", "30000");
        properties.put("request.timeout.ms", "5000");
        properties.put("linger.ms", "2");
        properties.put("reconnect.backoff.max.ms", "200");
        return properties;
    }

    private static Properties consumerProperties(String group) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", BOOTSTRAP);
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        properties.put("isolation.level", "read_committed");
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("max.poll.records", "50");
        properties.put("reconnect.backoff.max.ms", "200");
        if (group != null) {
            properties.put("group.id", group);
            properties.put("session.timeout.ms", String.valueOf(SESSION_MS));
            properties.put("heartbeat.interval.ms", "500");
        }
        return properties;
    }

    private static Properties uncommittedProperties() {
        Properties properties = consumerProperties(null);
        properties.put("isolation.level", "read_uncommitted");
        return properties;
    }

    private static String shown(Throwable error) {
        Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
        return (cause.getClass().getSimpleName() + ": " + cause.getMessage()).replace('\n', ' ');
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }
}
