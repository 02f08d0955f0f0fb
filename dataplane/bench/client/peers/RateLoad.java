import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Producers at a fixed rate. Latencies count from when a record was due, whether or not earlier ones
 * were sent in time.
 *
 * <pre>
 * rate BROKER TOPIC,… PARTITIONS PRODUCERS RATE BURST_MS SECONDS WARMUP_SECONDS RECORD_BYTES LINGER_MS KEYS
 * </pre>
 *
 * RATE is of each producer. The records of BURST_MS are due at once; 0 is evenly spaced.
 */
final class RateLoad {
    private static final int KEY_BYTES = 8;
    /** Of a record in a batch beside its key and its value, for records of 64 bytes to 8 KiB. */
    private static final int RECORD_OVERHEAD = 9;
    private static final int BATCH_OVERHEAD = 61;

    private final String[] topics;
    private final int producers;
    private final long rate;
    private final long burst;
    private final long seconds;
    private final long warmupSeconds;
    private final int recordBytes;
    private final String keys;
    private final Properties properties = new Properties();
    private final AtomicLongArray byPartition;
    /** By producer and number: microseconds; negative where the record failed. */
    private final long[][] latencies;
    private final double[] requests;
    private final double[] batchBytes;

    private RateLoad(String[] arguments) {
        properties.put("bootstrap.servers", arguments[1]);
        topics = arguments[2].split(",");
        byPartition = new AtomicLongArray(Integer.parseInt(arguments[3]));
        producers = Integer.parseInt(arguments[4]);
        rate = Long.parseLong(arguments[5]);
        burst = Math.max(1, rate * Long.parseLong(arguments[6]) / 1000);
        seconds = Long.parseLong(arguments[7]);
        warmupSeconds = Long.parseLong(arguments[8]);
        recordBytes = Integer.parseInt(arguments[9]);
        properties.put("linger.ms", arguments[10]);
        keys = arguments[11];
        properties.put("batch.size", "16384");
        properties.put("acks", "all");
        properties.put("enable.idempotence", "true");
        latencies = new long[producers][Math.toIntExact(rate * (seconds + warmupSeconds))];
        requests = new double[producers];
        batchBytes = new double[producers];
    }

    static void run(String[] arguments) throws Exception {
        RateLoad load = new RateLoad(arguments);
        long begin = System.nanoTime() + 500_000_000L;
        List<Thread> threads = new ArrayList<>();
        for (int index = 0; index < load.producers; index++) {
            int producer = index;
            threads.add(new Thread(() -> load.produce(producer, begin)));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        load.print();
    }

    private void produce(int index, long begin) {
        Random random = new Random(index);
        byte[][] values = new byte[64][recordBytes];
        for (byte[] value : values) {
            random.nextBytes(value);
        }
        long[] mine = latencies[index];
        Arrays.fill(mine, -1);
        double period = burst * 1e9 / rate;
        // The producers' bursts alternate.
        double first = begin + period * index / producers;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int number = 0; number < mine.length; number++) {
                int at = number;
                long due = (long) (first + (number / burst) * period);
                for (long wait = due - System.nanoTime(); wait > 0; wait = due - System.nanoTime()) {
                    LockSupport.parkNanos(wait);
                }
                String topic = topics[number % topics.length];
                byte[] value = values[number % values.length];
                producer.send(new ProducerRecord<>(topic, key(number, random), value), (metadata, error) -> {
                    if (error == null) {
                        mine[at] = (System.nanoTime() - due) / 1000;
                        byPartition.incrementAndGet(metadata.partition());
                    }
                });
            }
            producer.flush();
            requests[index] = PeerClient.metric(producer.metrics(), "request-total", "producer-metrics");
            batchBytes[index] = PeerClient.metric(producer.metrics(), "batch-size-avg", "producer-metrics");
        }
    }

    private byte[] key(int number, Random random) {
        boolean withKey = switch (keys) {
            case "none" -> false;
            // Half of each topic's records.
            case "mixed" -> number / topics.length % 2 == 0;
            default -> true;
        };
        if (!withKey) {
            return null;
        }
        long key = keys.equals("sequential") ? number : random.nextLong();
        return ByteBuffer.allocate(KEY_BYTES).putLong(key).array();
    }

    private void print() {
        int warmup = Math.toIntExact(rate * warmupSeconds);
        long[] measured = Arrays.stream(latencies)
            .flatMapToLong(mine -> Arrays.stream(mine, warmup, mine.length))
            .filter(micros -> micros >= 0).sorted().toArray();
        if (measured.length == 0) {
            throw new IllegalStateException("no record was acknowledged");
        }
        double keyBytes = keys.equals("none") ? 0 : keys.equals("mixed") ? KEY_BYTES / 2.0 : KEY_BYTES;
        double recordsPerBatch = (Arrays.stream(batchBytes).average().orElseThrow() - BATCH_OVERHEAD)
            / (recordBytes + keyBytes + RECORD_OVERHEAD);
        System.out.printf(
            "{\"records\":%d,\"p50_ms\":%f,\"p99_ms\":%f,\"max_ms\":%f,\"requests\":%.0f,"
                + "\"records_per_batch\":%f,\"by_partition\":%s}%n",
            measured.length, percentile(measured, 50), percentile(measured, 99), percentile(measured, 100),
            Arrays.stream(requests).sum(), recordsPerBatch, byPartition);
    }

    private static double percentile(long[] sorted, int percent) {
        int rank = (int) Math.ceil(sorted.length * percent / 100.0);
        return sorted[Math.max(0, rank - 1)] / 1000.0;
    }
}
