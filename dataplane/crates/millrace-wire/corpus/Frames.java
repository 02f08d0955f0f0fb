import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.BaseRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.SimpleRecord;

/**
 * Writes requests.txt: two requests of each API and version that brokers of Apache Kafka serve, as Kafka's own message
 * classes encode them: one with all fields that the version has, one with null wherever that is possible. A line: API key,
 * version, the frame without its size in hex.
 *
 * <pre>java -cp "$MILLRACE_KAFKA_JARS/*" Frames.java > requests.txt</pre>
 */
public final class Frames {
    private static final int CORRELATION_ID = 42;
    private static final Random RANDOM = new Random(1);

    public static void main(String[] args) throws Exception {
        List<ApiKeys> all = new ArrayList<>(ApiKeys.apisForListener(ApiMessageType.ListenerType.BROKER));
        all.sort(Comparator.comparing(one -> one.id));
        for (ApiKeys api : all) {
            for (short version = api.oldestVersion(); version <= api.latestVersion(); version++) {
                for (boolean nulls : new boolean[] {false, true}) {
                    String hex = HexFormat.of().formatHex(frame(api, version, nulls));
                    System.out.println(api.id + " " + version + " " + hex);
                }
            }
        }
    }

    private static byte[] frame(ApiKeys api, short version, boolean nulls) throws ReflectiveOperationException {
        ApiMessage request = api.messageType.newRequest();
        fill(request, request, version, nulls);
        RequestHeaderData header = new RequestHeaderData()
                .setRequestApiKey(api.id)
                .setRequestApiVersion(version)
                .setCorrelationId(CORRELATION_ID)
                .setClientId("corpus");
        byte[] head = bytes(header, api.requestHeaderVersion(version));
        byte[] body = bytes(request, version);
        byte[] frame = Arrays.copyOf(head, head.length + body.length);
        System.arraycopy(body, 0, frame, head.length, body.length);
        return frame;
    }

    /** Sets every field of `part`, which belongs to `root`, that the version has; the others keep their defaults. */
    private static void fill(Message root, Object part, short version, boolean nulls) throws ReflectiveOperationException {
        Method[] methods = part.getClass().getDeclaredMethods();
        Arrays.sort(methods, Comparator.comparing(Method::getName));
        for (Method setter : methods) {
            String name = setter.getName();
            if (!name.startsWith("set") || setter.getParameterCount() != 1 || name.equals("setNext") || name.equals("setPrev")) continue;
            String field = Character.toLowerCase(name.charAt(3)) + name.substring(4);
            Object before = part.getClass().getMethod(field).invoke(part);
            Type type = setter.getGenericParameterTypes()[0];
            List<Object> parts = new ArrayList<>();
            if (nulls && !setter.getParameterTypes()[0].isPrimitive()) {
                setter.invoke(part, (Object) null);
                if (isEncodable(root, version)) continue;
            }
            setter.invoke(part, value(type, parts));
            if (!isEncodable(root, version)) {
                setter.invoke(part, before);
                continue;
            }
            for (Object one : parts) fill(root, one, version, nulls);
        }
    }

    private static boolean isEncodable(Message root, short version) {
        try {
            bytes(root, version);
            return true;
        } catch (RuntimeException unsupported) {
            return false;
        }
    }

    /** A value of the type. Structures in it are added to `parts`, still with their defaults. */
    @SuppressWarnings("unchecked")
    private static Object value(Type type, List<Object> parts) throws ReflectiveOperationException {
        if (type instanceof ParameterizedType list) {
            List<Object> values = new ArrayList<>();
            for (int count = 0; count < 2; count++) values.add(value(list.getActualTypeArguments()[0], parts));
            return values;
        }
        Class<?> of = (Class<?>) type;
        if (of == boolean.class) return true;
        if (of == byte.class || of == Byte.class) return (byte) 1;
        if (of == short.class || of == Short.class) return (short) RANDOM.nextInt(1, 100);
        if (of == int.class || of == Integer.class) return RANDOM.nextInt(1, 60_000);
        if (of == long.class || of == Long.class) return RANDOM.nextLong(1, 1L << 50);
        if (of == double.class) return RANDOM.nextDouble();
        if (of == String.class) return "text-" + RANDOM.nextInt(1_000);
        if (of == Uuid.class) return new Uuid(RANDOM.nextLong(), RANDOM.nextLong());
        if (of == byte[].class) return new byte[] {1, 2, 3};
        if (of == ByteBuffer.class) return ByteBuffer.wrap(new byte[] {4, 5, 6});
        if (of == BaseRecords.class) {
            return MemoryRecords.withRecords(Compression.NONE, new SimpleRecord(1_000, "key".getBytes(), "value".getBytes()));
        }
        if (Collection.class.isAssignableFrom(of)) {
            Collection<Object> values = (Collection<Object>) of.getDeclaredConstructor().newInstance();
            Class<?> element = Class.forName(of.getName().replaceAll("Collection$", ""));
            Object one = element.getDeclaredConstructor().newInstance();
            parts.add(one);
            values.add(one);
            return values;
        }
        Object structure = of.getDeclaredConstructor().newInstance();
        parts.add(structure);
        return structure;
    }

    private static byte[] bytes(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }
}
