import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Tries one capability of Kafka's Java client, which its argument names; kafka/matrix/capabilities.ts describes them. */
public final class Capability {
    private static final String BOOTSTRAP = System.getenv("CLIENT_BOOTSTRAP");
    private static final String TOPIC = System.getenv("CLIENT_TOPIC");
    private static final String GROUP = System.getenv("CLIENT_GROUP");
    private static final String VERSION = System.getenv("CLIENT_VERSION");
    private static final int RECORDS = 10;
    private static final int PARTITIONS = 2;
    private static final long WAIT_MS_MAX = 40_000;

    public static void main(String[] args) {
        try {
            run(args);
        } catch (Exception error) {
            // The launcher of source files hides some.
            System.err.println(error);
            System.exit(1);
        }
    }

    private static void run(String[] args) throws Exception {
        switch (args[0]) {
            case "produce", "consume" -> exchange(Map.of());
            case "idempotent produce" -> exchange(Map.of("enable.idempotence", "true"));
            case "transactions" -> transactions();
            case "classic group" -> group("classic");
            case "consumer group" -> {
                if (VERSION.startsWith("3.")) {
                    System.out.println("n/a a preview in this version");
                    return;
                }
                group("consumer");
            }
            // ShareCapability tries it where the client has it.
            case "share group" -> System.out.println("n/a not supported by the client");
            case "admin" -> admin();
            default -> exchange(Map.of("compression.type", args[0]));
        }
    }

    private static void exchange(Map<String, String> settings) throws Exception {
        try (KafkaProducer<String, String> producer = producer(settings)) {
            write(producer, "v");
        }
        expect(RECORDS, read("read_uncommitted").size(), "records read");
    }

    private static void write(KafkaProducer<String, String> producer, String prefix) throws Exception {
        for (int at = 0; at < RECORDS; at++) {
            producer.send(new ProducerRecord<>(TOPIC, at % PARTITIONS, null, prefix + at)).get();
        }
    }

    private static List<String> read(String isolation) {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("isolation.level", isolation))) {
            List<TopicPartition> partitions = List.of(new TopicPartition(TOPIC, 0), new TopicPartition(TOPIC, 1));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long until = System.currentTimeMillis() + WAIT_MS_MAX;
            while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                if (System.currentTimeMillis() > until) throw new IllegalStateException("read only " + values);
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) values.add(record.value());
            }
        }
        return values;
    }

    private static void transactions() throws Exception {
        TopicPartition partition = new TopicPartition(TOPIC, 0);
        try (KafkaProducer<String, String> producer = producer(Map.of("transactional.id", GROUP));
                KafkaConsumer<String, String> member = consumer(Map.of("group.id", GROUP))) {
            producer.initTransactions();
            producer.beginTransaction();
            write(producer, "committed");
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(3)), member.groupMetadata());
            producer.commitTransaction();
            producer.beginTransaction();
            write(producer, "aborted");
            producer.abortTransaction();
            expect(3, member.committed(Set.of(partition)).get(partition).offset(), "committed offset");
        }
        List<String> values = read("read_committed");
        expect(RECORDS, values.size(), "committed records");
        if (values.stream().anyMatch(value -> value.startsWith("aborted"))) throw new IllegalStateException(values.toString());
    }

    /** Two members share the partitions; then one leaves, and the other has them all. */
    private static void group(String protocol) throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            write(producer, "v");
        }
        Map<String, String> settings = VERSION.startsWith("3.")
                ? Map.of("group.id", GROUP)
                : Map.of("group.id", GROUP, "group.protocol", protocol);
        Set<String> values = new HashSet<>();
        try (KafkaConsumer<String, String> first = consumer(settings)) {
            first.subscribe(List.of(TOPIC));
            KafkaConsumer<String, String> second = consumer(settings);
            second.subscribe(List.of(TOPIC));
            poll(values, () -> first.assignment().size() == 1 && second.assignment().size() == 1, first, second);
            second.close();
            poll(values, () -> first.assignment().size() == PARTITIONS && values.size() == RECORDS, first);
            TopicPartition partition = new TopicPartition(TOPIC, 0);
            first.commitSync(Map.of(partition, new OffsetAndMetadata(RECORDS / PARTITIONS)));
            expect(RECORDS / PARTITIONS, first.committed(Set.of(partition)).get(partition).offset(), "committed offset");
        }
    }

    private interface Condition {
        boolean holds();
    }

    @SafeVarargs
    private static void poll(Set<String> values, Condition condition, KafkaConsumer<String, String>... consumers) {
        long until = System.currentTimeMillis() + WAIT_MS_MAX;
        while (!condition.holds()) {
            if (System.currentTimeMillis() > until) throw new IllegalStateException("no such assignment; read " + values.size());
            for (KafkaConsumer<String, String> consumer : consumers) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) values.add(record.value());
            }
        }
    }

    private static void admin() throws Exception {
        String topic = TOPIC + "-made";
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", BOOTSTRAP))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            AlterConfigOp change = new AlterConfigOp(new ConfigEntry("retention.ms", "5000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
            expect(5_000, Long.parseLong(settled(admin, resource)), "retention.ms");
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            Thread.sleep(500);
            expect(3, admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size(), "partitions");
            TopicPartition partition = new TopicPartition(topic, 0);
            expect(0, admin.listOffsets(Map.of(partition, OffsetSpec.latest())).all().get().get(partition).offset(), "latest offset");
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(-1))).all().get();
            admin.describeCluster().nodes().get();
            admin.listConsumerGroupOffsets(GROUP).partitionsToOffsetAndMetadata().get();
            admin.describeLogDirs(admin.describeCluster().nodes().get().stream().map(node -> node.id()).toList())
                    .allDescriptions().get();
            admin.describeClientQuotas(org.apache.kafka.common.quota.ClientQuotaFilter.all()).entities().get();
            admin.deleteTopics(List.of(topic)).all().get();
        }
    }

    private static String settled(Admin admin, ConfigResource resource) throws Exception {
        Thread.sleep(500);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value();
    }

    private static KafkaProducer<String, String> producer(Map<String, String> settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", BOOTSTRAP);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("acks", "all");
        properties.put("delivery.timeout.ms", "30000");
        properties.put("request.timeout.ms", "10000");
        properties.put("enable.idempotence", String.valueOf(settings.containsKey("transactional.id")));
        properties.putAll(settings);
        return new KafkaProducer<>(properties);
    }

    private static KafkaConsumer<String, String> consumer(Map<String, String> settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", BOOTSTRAP);
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.putAll(settings);
        return new KafkaConsumer<>(properties);
    }

    private static void expect(long wanted, long is, String what) {
        if (wanted != is) throw new IllegalStateException(is + " " + what + ", not " + wanted);
    }
}
