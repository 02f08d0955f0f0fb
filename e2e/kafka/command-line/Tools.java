import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools in one JVM, one after the other. It reads commands as JSON, one a line:
 *
 * <pre>
 *   {"tool": "class", "args": […], "input": "…", "secondsMax": 30, "apart": false}
 *   {"join": "name", "bootstrap": "…", "group": "…", "topic": "…", "protocol": "…"}   a member until it leaves
 *   {"leave": "name"}
 *   {"open": "name", "bootstrap": "…", "topic": "…"}    an open transaction of this transactional id
 *   {"end": "name"}                                     closes its producer
 * </pre>
 *
 * <p>and answers each with {@code {"exit": 0, "out": "…", "err": "…"}}. A tool that does not end in time has the exit -1,
 * a command that cannot be carried out -2.
 */
public final class Tools {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int UNKNOWN_EXIT = -2;
    private static final int LATE_EXIT = -1;
    private static final int READY_SECONDS_MAX = 30;
    private static final int CLOSE_MS_MAX = 5_000;
    private static final AtomicInteger STATUS = new AtomicInteger();
    /** Of the tool that runs: some close what they use there. */
    private static final List<Runnable> HOOKS = new CopyOnWriteArrayList<>();
    private static final Map<String, Member> MEMBERS = new HashMap<>();
    private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();

    /** Tools keep the streams that they find first: they find these, and each run sets what is behind them. */
    private static final Redirect OUT = new Redirect();
    private static final Redirect ERR = new Redirect();

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> exit(status));
        Exit.setHaltProcedure((status, message) -> exit(status));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                carryOut(JSON.readTree(line), answer);
            } catch (Exception error) {
                answer.put("exit", UNKNOWN_EXIT).put("out", "").put("err", error.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void carryOut(JsonNode command, ObjectNode answer) throws Exception {
        answer.put("exit", 0).put("out", "").put("err", "");
        if (command.path("apart").asBoolean()) runApart(command, answer);
        else if (command.has("tool")) run(command, answer);
        else if (command.has("join")) MEMBERS.put(command.get("join").asText(), new Member(command));
        else if (command.has("leave")) MEMBERS.remove(command.get("leave").asText()).leave();
        else if (command.has("open")) open(command);
        else PRODUCERS.remove(command.get("end").asText()).close(Duration.ZERO);
    }

    /** In a JVM of its own: a tool that does its last work in a shutdown hook of the JVM. */
    private static void runApart(JsonNode command, ObjectNode answer) throws Exception {
        List<String> line = new ArrayList<>(List.of("java", "-Xmx128M", "-XX:TieredStopAtLevel=1", "-cp"));
        line.add(System.getProperty("java.class.path"));
        line.add(command.get("tool").asText());
        command.get("args").forEach(one -> line.add(one.asText()));
        Process process = new ProcessBuilder(line).redirectErrorStream(true).start();
        process.getOutputStream().close();
        if (!process.waitFor(command.path("secondsMax").asLong(60), TimeUnit.SECONDS)) process.destroyForcibly();
        answer.put("out", new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8));
        answer.put("exit", process.waitFor());
    }

    private static void run(JsonNode command, ObjectNode answer) throws Exception {
        Class<?> tool = Class.forName(command.get("tool").asText());
        resetStatics(tool);
        String[] args = JSON.convertValue(command.get("args"), String[].class);
        String typed = command.path("input").asText("");
        InputStream input = new ByteArrayInputStream(typed.getBytes(StandardCharsets.UTF_8));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        OUT.target = out;
        ERR.target = err;
        System.setIn(input);
        STATUS.set(UNKNOWN_EXIT);
        HOOKS.clear();
        Thread thread = new Thread(() -> {
            try {
                tool.getMethod("main", String[].class).invoke(null, (Object) args);
                STATUS.compareAndSet(UNKNOWN_EXIT, 0);
            } catch (InvocationTargetException thrown) {
                if (thrown.getCause() instanceof Exited) return;
                thrown.getCause().printStackTrace();
                STATUS.compareAndSet(UNKNOWN_EXIT, 1);
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }, "tool");
        thread.setDaemon(true);
        thread.start();
        thread.join(command.path("secondsMax").asLong(60) * 1_000);
        if (thread.isAlive()) {
            STATUS.set(LATE_EXIT);
            thread.interrupt();
            thread.join(CLOSE_MS_MAX);
        }
        Thread hooks = new Thread(() -> HOOKS.forEach(Runnable::run), "hooks");
        hooks.setDaemon(true);
        hooks.start();
        hooks.join(CLOSE_MS_MAX);
        OUT.target = OutputStream.nullOutputStream();
        ERR.target = OutputStream.nullOutputStream();
        answer.put("exit", STATUS.get());
        answer.put("out", out.toString(StandardCharsets.UTF_8));
        answer.put("err", err.toString(StandardCharsets.UTF_8));
    }

    /** The console consumer counts in a static field. */
    private static void resetStatics(Class<?> tool) throws ReflectiveOperationException {
        for (Field field : tool.getDeclaredFields()) {
            if (!field.getName().equals("messageCount")) continue;
            field.setAccessible(true);
            field.setInt(null, 0);
        }
    }

    /** The first status counts: tools that catch everything exit a second time. */
    private static void exit(int status) {
        STATUS.compareAndSet(UNKNOWN_EXIT, status);
        throw new Exited();
    }

    private static void open(JsonNode command) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", command.get("bootstrap").asText());
        properties.put("transactional.id", command.get("open").asText());
        StringSerializer text = new StringSerializer();
        KafkaProducer<String, String> producer = new KafkaProducer<>(properties, text, text);
        PRODUCERS.put(command.get("open").asText(), producer);
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(command.get("topic").asText(), 0, "d", "open")).get();
    }

    private static final class Exited extends Error {
        Exited() {
            super("exited", null, false, false);
        }
    }

    private static final class Redirect extends OutputStream {
        private volatile OutputStream target = OutputStream.nullOutputStream();

        @Override
        public void write(int one) throws java.io.IOException {
            target.write(one);
        }

        @Override
        public void write(byte[] bytes, int at, int length) throws java.io.IOException {
            target.write(bytes, at, length);
        }
    }

    /** A member of a group that polls until it leaves. */
    private static final class Member {
        private final Thread thread;
        private volatile boolean leaves;

        Member(JsonNode command) throws Exception {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", command.get("bootstrap").asText());
            properties.put("group.id", command.get("group").asText());
            properties.put("group.protocol", command.get("protocol").asText());
            properties.put("client.id", "member");
            properties.put("auto.offset.reset", "earliest");
            properties.put("enable.auto.commit", "false");
            CountDownLatch assigned = new CountDownLatch(1);
            String topic = command.get("topic").asText();
            thread = new Thread(() -> {
                StringDeserializer text = new StringDeserializer();
                try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, text, text)) {
                    consumer.subscribe(List.of(topic));
                    while (!leaves) {
                        consumer.poll(Duration.ofMillis(100));
                        if (assigned.getCount() == 0) continue;
                        if (consumer.assignment().size() < consumer.partitionsFor(topic).size()) continue;
                        Map<TopicPartition, OffsetAndMetadata> first = new HashMap<>();
                        for (TopicPartition one : consumer.assignment()) first.put(one, new OffsetAndMetadata(0));
                        consumer.commitSync(first);
                        assigned.countDown();
                    }
                }
            }, "member");
            thread.setDaemon(true);
            thread.start();
            if (!assigned.await(READY_SECONDS_MAX, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the member is not assigned anything");
            }
        }

        void leave() throws InterruptedException {
            leaves = true;
            thread.join(READY_SECONDS_MAX * 1_000L);
        }
    }
}
