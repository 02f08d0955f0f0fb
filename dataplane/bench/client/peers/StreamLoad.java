import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/**
 * A backlog is read by a poll loop with flow control; some partitions have a slow stage behind them.
 * Such a partition is paused while its stage still has records, and resumed when it has none.
 *
 * <pre>
 * stream BROKER TOPIC PARTITIONS RECORDS SLOW_PARTITIONS SLOW_MS
 * </pre>
 *
 * RECORDS is of each partition, SLOW_MS what a slow stage takes for a record.
 */
final class StreamLoad {
    /** A resumed partition is noticed at the latest after so long. */
    private static final Duration POLL = Duration.ofMillis(10);

    private StreamLoad() {}

    static void run(String[] arguments) throws Exception {
        List<TopicPartition> partitions = PeerClient.partitions(arguments[2], arguments[3]);
        long wanted = partitions.size() * Long.parseLong(arguments[4]);
        int slow = Integer.parseInt(arguments[5]);
        long slowNanos = Long.parseLong(arguments[6]) * 1_000_000L;
        Properties properties = PeerClient.consumerProperties(arguments[1]);
        // The stage of each slow partition works until then.
        long[] busyUntil = new long[slow];
        long records = 0;
        long bytes = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long begin = System.nanoTime();
            while (records < wanted) {
                direct(consumer, partitions, busyUntil);
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    records++;
                    bytes += record.value().length;
                    if (record.partition() < slow) {
                        long from = Math.max(System.nanoTime(), busyUntil[record.partition()]);
                        busyUntil[record.partition()] = from + slowNanos;
                    }
                }
            }
            for (long until : busyUntil) {
                while (System.nanoTime() < until) {
                    Thread.sleep(1);
                }
            }
            double elapsed = (System.nanoTime() - begin) / 1e9;
            System.out.printf(
                "{\"records\":%d,\"bytes\":%d,\"seconds\":%f,\"fetch_requests\":%.0f,"
                    + "\"received_bytes\":%.0f,\"peak_memory_kib\":%d}%n",
                records, bytes, elapsed,
                PeerClient.metric(consumer.metrics(), "fetch-total", "consumer-fetch-manager-metrics"),
                PeerClient.metric(consumer.metrics(), "incoming-byte-total", "consumer-metrics"),
                peakMemoryKib());
        }
    }

    private static void direct(
            KafkaConsumer<?, ?> consumer, List<TopicPartition> partitions, long[] busyUntil) {
        long now = System.nanoTime();
        List<TopicPartition> busy = new ArrayList<>();
        List<TopicPartition> free = new ArrayList<>();
        for (int index = 0; index < busyUntil.length; index++) {
            (now < busyUntil[index] ? busy : free).add(partitions.get(index));
        }
        consumer.pause(busy);
        consumer.resume(free);
    }

    private static long peakMemoryKib() throws Exception {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("\\D", ""));
            }
        }
        throw new IllegalStateException("no VmHWM");
    }
}
