import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/**
 * Where Kafka's own partitioner places keys.
 *
 * <pre>
 * KEYS_FILE PLACES_FILE PARTITIONS…
 * </pre>
 *
 * KEYS_FILE has for each key a byte with its length, and the key. PLACES_FILE gets for each key a
 * 32-bit number, big-endian, for each number of partitions.
 */
public final class KeyPlacement {
    public static void main(String[] arguments) throws Exception {
        byte[] keys = Files.readAllBytes(Path.of(arguments[0]));
        int count = 0;
        try (DataOutputStream places = new DataOutputStream(
                new java.io.BufferedOutputStream(new FileOutputStream(arguments[1])))) {
            for (int at = 0; at < keys.length; at += 1 + (keys[at] & 0xff)) {
                byte[] key = java.util.Arrays.copyOfRange(keys, at + 1, at + 1 + (keys[at] & 0xff));
                for (int index = 2; index < arguments.length; index++) {
                    int partitions = Integer.parseInt(arguments[index]);
                    places.writeInt(BuiltInPartitioner.partitionForKey(key, partitions));
                }
                count++;
            }
        }
        System.out.printf("{\"keys\":%d}%n", count);
    }
}
