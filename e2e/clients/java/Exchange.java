import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes each line of its standard input as a record, then reads as many in a consumer group and prints them.
 * With the argument `user` it creates the SCRAM user instead, with `steady` it runs the steady mode. programs.ts describes
 * the environment and that mode.
 */
public class Exchange {
    private static final Duration IDLE_MAX = Duration.ofSeconds(30);
    private static final int SCRAM_ITERATIONS = 4096;

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 1 && arguments[0].equals("user")) {
            createUser();
            return;
        }
        if (arguments.length == 1 && arguments[0].equals("steady")) {
            steady();
            return;
        }
        List<String> values = new BufferedReader(new InputStreamReader(System.in)).lines().toList();
        String topic = env("TOPIC");
        Properties producing = settings();
        producing.put("acks", "all");
        producing.put("delivery.timeout.ms", "30000");
        producing.put("request.timeout.ms", "20000");
        producing.put("linger.ms", "0");
        try (var producer = new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer())) {
            for (String value : values) producer.send(new ProducerRecord<>(topic, value)).get();
        }
        Properties consuming = settings();
        consuming.put("group.id", "clients-" + UUID.randomUUID());
        consuming.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long deadline = System.nanoTime() + IDLE_MAX.toNanos();
            int seen = 0;
            while (seen < values.size()) {
                if (System.nanoTime() > deadline) throw new IllegalStateException("read " + seen + " records");
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println(record.value());
                    seen++;
                }
            }
            consumer.commitSync();
        }
    }

    private static void createUser() throws Exception {
        try (Admin admin = Admin.create(settings())) {
            var changes = Set.of(ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512).stream()
                .map(mechanism -> new UserScramCredentialUpsertion(
                    env("USERNAME"), new ScramCredentialInfo(mechanism, SCRAM_ITERATIONS), env("PASSWORD")))
                .toList();
            admin.alterUserScramCredentials(List.copyOf(changes)).all().get();
        }
    }

    /** Records at a steady rate, numbered per partition, until the standard input ends; a consumer reads them. */
    private static void steady() throws Exception {
        String topic = env("TOPIC");
        int partitions = Integer.parseInt(env("PARTITIONS"));
        int rate = Integer.parseInt(env("RECORDS_PER_SECOND"));
        Properties producing = settings();
        if (env("TUNED").equals("1")) {
            producing.put("retry.backoff.ms", "20");
            producing.put("retry.backoff.max.ms", "100");
        }
        startDaemon(() -> follow(topic));
        var ended = new AtomicBoolean();
        startDaemon(() -> {
            new BufferedReader(new InputStreamReader(System.in)).lines().forEach(line -> {});
            ended.set(true);
        });
        try (var producer = new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer())) {
            long started = System.nanoTime();
            for (long sequence = 0; !ended.get(); sequence++) {
                for (int partition = 0; partition < partitions; partition++)
                    send(producer, topic, partition, sequence);
                long due = started + (sequence + 1) * 1_000_000_000 / rate;
                TimeUnit.NANOSECONDS.sleep(due - System.nanoTime());
            }
        }
        System.out.println("flushed");
        Thread.sleep(Duration.ofDays(1).toMillis());
    }

    private static void startDaemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    private static void send(KafkaProducer<String, String> producer, String topic, int partition, long sequence) {
        String record = partition + " " + sequence + " ";
        producer.send(new ProducerRecord<>(topic, partition, null, Long.toString(sequence)), (sent, failure) -> {
            if (failure == null) System.out.println("acked " + record + System.currentTimeMillis());
            else System.out.println("failed " + record + failure);
        });
    }

    private static void follow(String topic) {
        Properties consuming = settings();
        consuming.put("group.id", topic + "-readers");
        consuming.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (true) {
                for (var record : consumer.poll(Duration.ofMillis(200)))
                    System.out.println("read " + record.partition() + " " + record.value());
            }
        } catch (Exception failure) {
            System.out.println("error " + failure);
        }
    }

    private static Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", env("BOOTSTRAP"));
        settings.put("security.protocol", env("PROTOCOL"));
        settings.put("ssl.truststore.type", "PEM");
        settings.put("ssl.truststore.location", env("CA_FILE"));
        if (!env("IDENTITY_FILE").isEmpty()) {
            settings.put("ssl.keystore.type", "PEM");
            settings.put("ssl.keystore.location", env("IDENTITY_FILE"));
        }
        if (!env("PROTOCOL").startsWith("SASL")) return settings;
        String mechanism = env("MECHANISM");
        settings.put("sasl.mechanism", mechanism);
        String user = String.format(" required username=\"%s\" password=\"%s\";", env("USERNAME"), env("PASSWORD"));
        String logins = "org.apache.kafka.common.security.";
        if (mechanism.equals("OAUTHBEARER")) {
            settings.put("sasl.jaas.config", logins + "oauthbearer.OAuthBearerLoginModule required;");
            settings.put("sasl.login.callback.handler.class", FixedToken.class);
        } else {
            String login = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            settings.put("sasl.jaas.config", logins + login + user);
        }
        return settings;
    }

    private static String env(String name) {
        return System.getenv().getOrDefault("CLIENT_" + name, "");
    }

    /** Hands out the token that the check has signed. */
    public static class FixedToken implements AuthenticateCallbackHandler {
        @Override
        public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {}

        @Override
        public void close() {}

        @Override
        public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
            for (Callback callback : callbacks) {
                if (callback instanceof OAuthBearerTokenCallback asked) asked.token(new Token());
                else if (!callback.getClass().getSimpleName().equals("SaslExtensionsCallback"))
                    throw new UnsupportedCallbackException(callback);
            }
        }
    }

    private static class Token implements OAuthBearerToken {
        private final long now = System.currentTimeMillis();

        @Override
        public String value() {
            return env("PASSWORD");
        }

        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return now + 240_000;
        }

        @Override
        public String principalName() {
            return env("USERNAME");
        }

        @Override
        public Long startTimeMs() {
            return now;
        }
    }
}
