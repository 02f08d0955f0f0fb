import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The load of bench/transactions.ts: producers that commit one transaction after the other, and a consumer of committed
 * records. Arguments: bootstrap servers, topic, producers, milliseconds per transaction (0: as fast as it goes), records
 * per transaction, seconds that are not measured, seconds that are.
 *
 * <p>Prints one JSON object. Latencies are of transactions or records that were begun in the measured time: {@code commit},
 * the call to commit; {@code end_to_end}, from the call to send a record until the consumer has it; {@code after_commit},
 * from the call to commit.
 */
public final class TransactionLoad {
    private static final int RECORD_BYTES = 100;
    private static final int DRAIN_SECONDS_MAX = 60;
    /** Transactions whose records a consumer has not seen yet, by number. */
    private static final Map<Long, Long> COMMIT_CALLED = new ConcurrentHashMap<>();
    private static final AtomicReference<String> FIRST_ERROR = new AtomicReference<>("");

    private static String bootstrap;
    private static String topic;
    private static long transactionNs;
    private static int records;
    private static long from;
    private static long until;
    private static volatile boolean ended;
    private static volatile long committed;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        topic = args[1];
        int count = Integer.parseInt(args[2]);
        transactionNs = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(args[3]));
        records = Integer.parseInt(args[4]);
        CountDownLatch ready = new CountDownLatch(count + 1);
        CountDownLatch go = new CountDownLatch(1);
        List<Producer> producers = new ArrayList<>();
        for (int number = 0; number < count; number++) producers.add(new Producer(number, ready, go));
        Consumer consumer = new Consumer(ready);
        producers.forEach(Thread::start);
        consumer.start();
        ready.await();
        from = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(args[5]));
        until = from + TimeUnit.SECONDS.toNanos(Long.parseLong(args[6]));
        go.countDown();
        for (Producer one : producers) {
            one.join();
            committed += one.sent;
        }
        ended = true;
        consumer.join();

        Latencies commits = new Latencies();
        long done = 0;
        long errors = 0;
        long sent = 0;
        for (Producer one : producers) {
            commits.addAll(one.commits);
            done += one.done;
            errors += one.errors;
            sent += one.sent;
        }
        double seconds = (until - from) / 1e9;
        System.out.printf(
                "{\"commits_per_s\":%.1f,\"errors\":%d,\"records\":%d,\"missing\":%d,\"commit_ms\":%s,\"end_to_end_ms\":%s,"
                        + "\"after_commit_ms\":%s,\"first_error\":\"%s\"}%n",
                done / seconds, errors, sent, sent - consumer.seen, commits, consumer.fromSend, consumer.fromCommit,
                FIRST_ERROR.get().replaceAll("[\"\\\\\\n]", " "));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static final class Producer extends Thread {
        final Latencies commits = new Latencies();
        final int number;
        final CountDownLatch ready;
        final CountDownLatch go;
        long done;
        long errors;
        long sent;
        private int partitions;

        Producer(int number, CountDownLatch ready, CountDownLatch go) {
            super("producer " + number);
            this.number = number;
            this.ready = ready;
            this.go = go;
        }

        @Override
        public void run() {
            KafkaProducer<byte[], byte[]> producer = create();
            try {
                partitions = producer.partitionsFor(topic).size();
                ready.countDown();
                go.await();
            } catch (InterruptedException stopped) {
                return;
            }
            // Producers that begin together would commit together.
            long due = System.nanoTime() + transactionNs * (number % 50) / 50;
            for (long transaction = number; System.nanoTime() < until; transaction += 1_000_000) {
                try {
                    due = Math.max(due, System.nanoTime() - transactionNs);
                    due = runTransaction(producer, transaction, due);
                } catch (Exception error) {
                    errors++;
                    FIRST_ERROR.compareAndSet("", error + (error.getCause() == null ? "" : " < " + error.getCause()));
                    producer.close(Duration.ZERO);
                    producer = create();
                }
            }
            producer.close();
        }

        /** Spreads the records over the transaction's time. Gives when the next transaction is due. */
        private long runTransaction(KafkaProducer<byte[], byte[]> producer, long transaction, long due) throws Exception {
            producer.beginTransaction();
            List<Future<?>> sends = new ArrayList<>();
            for (int record = 0; record < records; record++) {
                sleepUntil(due + transactionNs * record / records);
                int partition = (int) ((transaction / 1_000_000 * records + record + number) % partitions);
                String value = System.nanoTime() + " " + transaction + " ";
                byte[] bytes = Arrays.copyOf(value.getBytes(), RECORD_BYTES);
                sends.add(producer.send(new ProducerRecord<>(topic, partition, null, bytes)));
            }
            sleepUntil(due + transactionNs);
            long called = System.nanoTime();
            COMMIT_CALLED.put(transaction, called);
            // Its sender looks for unsent records before it takes the lock under which it takes the request to commit: a record that
            // is handed over in between is left out of the transaction, or EndTxn is refused because there is no transaction.
            producer.flush();
            producer.commitTransaction();
            long now = System.nanoTime();
            sent += records;
            if (called >= from && called < until) {
                done++;
                commits.add(now - called);
            }
            return due + transactionNs;
        }

        private KafkaProducer<byte[], byte[]> create() {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("transactional.id", "load-" + number);
            properties.put("acks", "all");
            properties.put("linger.ms", "0");
            KafkaProducer<byte[], byte[]> producer =
                    new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
            producer.initTransactions();
            return producer;
        }
    }

    private static final class Consumer extends Thread {
        final Latencies fromSend = new Latencies();
        final Latencies fromCommit = new Latencies();
        final CountDownLatch ready;
        long seen;

        Consumer(CountDownLatch ready) {
            super("consumer");
            this.ready = ready;
        }

        @Override
        public void run() {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("isolation.level", "read_committed");
            properties.put("auto.offset.reset", "latest");
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, bytes, bytes)) {
                List<TopicPartition> all = new ArrayList<>();
                for (PartitionInfo one : consumer.partitionsFor(topic)) all.add(new TopicPartition(topic, one.partition()));
                consumer.assign(all);
                consumer.seekToEnd(all);
                for (TopicPartition one : all) consumer.position(one);
                ready.countDown();
                long end = Long.MAX_VALUE;
                while (!ended || (seen < committed && System.nanoTime() < end)) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) note(record.value());
                    if (!ended) end = System.nanoTime() + TimeUnit.SECONDS.toNanos(DRAIN_SECONDS_MAX);
                }
            }
        }

        private void note(byte[] value) {
            long now = System.nanoTime();
            String[] fields = new String(value).split(" ");
            long sent = Long.parseLong(fields[0]);
            Long called = COMMIT_CALLED.get(Long.parseLong(fields[1]));
            seen++;
            if (sent < from || sent >= until) return;
            fromSend.add(now - sent);
            if (called != null) fromCommit.add(now - called);
        }
    }

    private static final class Latencies {
        private long[] all = new long[1 << 16];
        private int count;

        void add(long ns) {
            if (count == all.length) all = Arrays.copyOf(all, count * 2);
            all[count++] = ns;
        }

        void addAll(Latencies other) {
            for (int at = 0; at < other.count; at++) add(other.all[at]);
        }

        @Override
        public String toString() {
            long[] sorted = Arrays.copyOf(all, count);
            Arrays.sort(sorted);
            return String.format("{\"p50\":%.2f,\"p99\":%.2f,\"max\":%.2f}", at(sorted, 0.5), at(sorted, 0.99), at(sorted, 1));
        }

        private static double at(long[] sorted, double quantile) {
            if (sorted.length == 0) return 0;
            return sorted[(int) Math.min(sorted.length - 1, sorted.length * quantile)] / 1e6;
        }
    }

    private static void sleepUntil(long due) throws InterruptedException {
        long left = due - System.nanoTime();
        if (left > 0) TimeUnit.NANOSECONDS.sleep(left);
    }
}
