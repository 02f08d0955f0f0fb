import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;

/**
 * Writes batches.txt: record batches of Kafka's own writer, one a line in hex: each codec, without a producer, with one
 * and in a transaction; both markers; log append time.
 *
 * <pre>java -cp "$MILLRACE_KAFKA_JARS/*" Batches.java > batches.txt</pre>
 */
public final class Batches {
    private static final int RECORDS = 6;

    public static void main(String[] args) {
        for (CompressionType codec : CompressionType.values()) {
            print(batch(codec, TimestampType.CREATE_TIME, RecordBatch.NO_PRODUCER_ID, false));
            print(batch(codec, TimestampType.CREATE_TIME, 7, false));
            print(batch(codec, TimestampType.LOG_APPEND_TIME, 7, true));
        }
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.ABORT, ControlRecordType.COMMIT}) {
            print(MemoryRecords.withEndTransactionMarker(1_000, 7, (short) 3, new EndTransactionMarker(type, 11)).buffer());
        }
    }

    private static ByteBuffer batch(CompressionType codec, TimestampType type, long producerId, boolean transactional) {
        boolean produces = producerId != RecordBatch.NO_PRODUCER_ID;
        MemoryRecordsBuilder builder = MemoryRecords.builder(
                ByteBuffer.allocate(4_096), RecordBatch.MAGIC_VALUE_V2, Compression.of(codec).build(), type, 100L, 5_000L,
                producerId, produces ? (short) 3 : RecordBatch.NO_PRODUCER_EPOCH, produces ? 40 : RecordBatch.NO_SEQUENCE,
                transactional, 2);
        for (int number = 0; number < RECORDS; number++) {
            byte[] key = number % 3 == 0 ? null : ("key" + number).getBytes();
            byte[] value = number % 4 == 1 ? null : "value ".repeat(number).getBytes();
            Header[] headers = new Header[number % 3];
            for (int at = 0; at < headers.length; at++) headers[at] = new RecordHeader("h" + at, at == 0 ? null : new byte[] {1});
            builder.append(new SimpleRecord(1_000 + number, key, value, headers));
        }
        return builder.build().buffer();
    }

    private static void print(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        System.out.println(HexFormat.of().formatHex(bytes));
    }
}
