import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Tries share groups with Kafka's Java client 4.1 or later, as kafka/matrix/capabilities.ts describes. */
public final class ShareCapability {
    private static final String BOOTSTRAP = System.getenv("CLIENT_BOOTSTRAP");
    private static final String TOPIC = System.getenv("CLIENT_TOPIC");
    private static final String GROUP = System.getenv("CLIENT_GROUP");
    private static final int RECORDS = 10;
    private static final int PARTITIONS = 2;
    private static final long WAIT_MS_MAX = 40_000;

    private final List<String> released = new ArrayList<>();
    private final List<String> accepted = new ArrayList<>();

    public static void main(String[] args) {
        try {
            write("first");
            ShareCapability first = new ShareCapability();
            first.acknowledge(true);
            expect(RECORDS, first.released.size(), "records released");
            expect(RECORDS, first.accepted.size(), "records accepted");
            write("later");
            ShareCapability second = new ShareCapability();
            second.acknowledge(false);
            if (second.accepted.stream().anyMatch(value -> !value.startsWith("later"))) {
                throw new IllegalStateException("delivered after it was accepted: " + second.accepted);
            }
        } catch (Exception error) {
            // The launcher of source files hides some.
            System.err.println(error);
            System.exit(1);
        }
    }

    private static void write(String prefix) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", BOOTSTRAP);
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties, text, text)) {
            for (int at = 0; at < RECORDS; at++) {
                producer.send(new ProducerRecord<>(TOPIC, at % PARTITIONS, null, prefix + at)).get();
            }
        }
    }

    /** Is a member of the share group until it has accepted RECORDS; may release records at their first delivery. */
    private void acknowledge(boolean releases) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", BOOTSTRAP);
        properties.put("group.id", GROUP);
        properties.put("share.acknowledgement.mode", "explicit");
        StringDeserializer text = new StringDeserializer();
        try (KafkaShareConsumer<String, String> member = new KafkaShareConsumer<>(properties, text, text)) {
            member.subscribe(List.of(TOPIC));
            long until = System.currentTimeMillis() + WAIT_MS_MAX;
            while (accepted.size() < RECORDS) {
                if (System.currentTimeMillis() > until) {
                    throw new IllegalStateException("released " + released + ", accepted " + accepted);
                }
                for (ConsumerRecord<String, String> record : member.poll(Duration.ofMillis(200))) {
                    boolean isReleased = releases && record.deliveryCount().orElse((short) 0) == 1;
                    member.acknowledge(record, isReleased ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                    (isReleased ? released : accepted).add(record.value());
                }
                for (var failure : member.commitSync().values()) {
                    if (failure.isPresent()) throw new KafkaException(failure.get());
                }
            }
        }
    }

    private static void expect(long wanted, long is, String what) {
        if (wanted != is) throw new IllegalStateException(is + " " + what + ", not " + wanted);
    }
}
