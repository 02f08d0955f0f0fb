import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.BinaryNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.CRC32C;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.BaseRecords;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.ImplicitLinkedHashMultiCollection;

/**
 * Sends Kafka requests that it reads as JSON, one a line, and prints the responses as JSON, one a line. It knows every
 * version of every request by the message classes of kafka-clients.
 *
 * <p>A line: {@code {"id":1,"to":"host:port","connection":"name","api":"Metadata","version":12,"body":{…}}}. A field that
 * the body does not name has the protocol's default. A connection that the broker has closed is opened again, unless the
 * line says {@code "reconnects":false}. The answer: {@code {"id":1,"body":{…}}} or {@code {"id":1,
 * "error":"unsupported|closed|undecodable|invalid","message":"…"}}. Bytes are base64. Record batches are built from the
 * fields that {@link #batch} names, and decoded into the like.
 */
public final class Wire {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String MESSAGES = "org.apache.kafka.common.message.";
    private static final int CONNECT_MS_MAX = 5_000;
    private static final int RESPONSE_BYTES_MAX = 64 << 20;
    /** Where a batch of magic 2 has its checksum, of all that comes after it. */
    private static final int CRC_AT = 17;
    private static final int BATCH_BYTES_MAX = 16 << 20;
    private static final Map<String, Connection> CONNECTIONS = new ConcurrentHashMap<>();

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = JSON.readTree(line);
            if (command.has("close")) {
                Connection connection = CONNECTIONS.remove(command.get("close").asText());
                if (connection != null) connection.socket.close();
            } else {
                send(command);
            }
        }
        System.exit(0);
    }

    private static void send(JsonNode command) {
        int id = command.get("id").asInt();
        try {
            short version = (short) command.get("version").asInt();
            ApiMessage request = (ApiMessage) Class.forName(MESSAGES + command.get("api").asText() + "RequestData")
                    .getDeclaredConstructor().newInstance();
            fill(request, command.get("body"));
            ApiKeys api = ApiKeys.forId(request.apiKey());
            RequestHeaderData header = new RequestHeaderData()
                    .setRequestApiKey(api.id)
                    .setRequestApiVersion(version)
                    .setCorrelationId(id)
                    .setClientId(command.path("clientId").asText("differential"));
            byte[] head = bytes(header, api.requestHeaderVersion(version));
            byte[] body = bytes(request, version);
            boolean answered = !(api == ApiKeys.PRODUCE && command.get("body").path("acks").asInt() == 0);
            String key = command.get("to").asText() + "/" + command.get("connection").asText();
            Connection connection = CONNECTIONS.get(key);
            boolean reconnects = command.path("reconnects").asBoolean(true);
            if (connection != null && connection.ended && !reconnects) throw new IOException("the broker closed it");
            if (connection == null || connection.ended) {
                connection = new Connection(command.get("to").asText());
                CONNECTIONS.put(key, connection);
            }
            connection.send(id, api, version, head, body, answered);
        } catch (UnsupportedVersionException error) {
            fail(id, "unsupported", error);
        } catch (IOException error) {
            fail(id, "closed", error);
        } catch (ReflectiveOperationException | RuntimeException | LinkageError error) {
            fail(id, "invalid", error);
        }
    }

    private static byte[] bytes(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static void fail(int id, String error, Throwable cause) {
        print(JSON.createObjectNode().put("id", id).put("error", error).put("message", String.valueOf(cause)));
    }

    private static synchronized void print(JsonNode node) {
        System.out.println(node);
    }

    /** What is under way on one socket, by correlation id. */
    private static final class Connection {
        final Socket socket = new Socket();
        final Map<Integer, Object[]> pending = new ConcurrentHashMap<>();
        final DataOutputStream out;
        volatile boolean ended = false;

        Connection(String to) throws IOException {
            int colon = to.lastIndexOf(':');
            socket.setTcpNoDelay(true);
            int port = Integer.parseInt(to.substring(colon + 1));
            socket.connect(new InetSocketAddress(to.substring(0, colon), port), CONNECT_MS_MAX);
            out = new DataOutputStream(socket.getOutputStream());
            Thread reader = new Thread(this::read, "reader " + to);
            reader.setDaemon(true);
            reader.start();
        }

        void send(int id, ApiKeys api, short version, byte[] head, byte[] body, boolean answered) throws IOException {
            if (answered) pending.put(id, new Object[] {api, version});
            byte[] frame = ByteBuffer.allocate(4 + head.length + body.length)
                    .putInt(head.length + body.length).put(head).put(body).array();
            try {
                out.write(frame);
            } catch (IOException error) {
                pending.remove(id);
                throw error;
            }
            if (!answered) print(JSON.createObjectNode().put("id", id).set("body", JSON.createObjectNode()));
        }

        private void read() {
            try (DataInputStream in = new DataInputStream(socket.getInputStream())) {
                while (true) {
                    int length = in.readInt();
                    if (length < 4 || length > RESPONSE_BYTES_MAX) throw new IOException("a response of " + length + " bytes");
                    byte[] response = new byte[length];
                    in.readFully(response);
                    answer(ByteBuffer.wrap(response));
                }
            } catch (IOException error) {
                ended = true;
                for (int id : List.copyOf(pending.keySet())) {
                    if (pending.remove(id) != null) fail(id, "closed", error);
                }
            }
        }

        private void answer(ByteBuffer buffer) throws IOException {
            int id = buffer.getInt(0);
            Object[] asked = pending.remove(id);
            if (asked == null) throw new IOException("nobody asked " + id);
            ApiKeys api = (ApiKeys) asked[0];
            short version = (short) asked[1];
            try {
                new ResponseHeaderData(new ByteBufferAccessor(buffer), api.responseHeaderVersion(version));
                ApiMessage response = ApiMessageType.fromApiKey(api.id).newResponse();
                response.read(new ByteBufferAccessor(buffer), version);
                String converter = response.getClass().getName() + "JsonConverter";
                JsonNode body = (JsonNode) Class.forName(converter)
                        .getMethod("write", response.getClass(), short.class)
                        .invoke(null, response, version);
                ObjectNode reply = JSON.createObjectNode().put("id", id).put("left", buffer.remaining());
                print(reply.set("body", withDecodedRecords(body)));
            } catch (ReflectiveOperationException | RuntimeException | LinkageError error) {
                fail(id, "undecodable", error);
            }
        }
    }

    private static void fill(Object message, JsonNode fields) throws ReflectiveOperationException {
        for (Map.Entry<String, JsonNode> field : (Iterable<Map.Entry<String, JsonNode>>) fields::fields) {
            String name = field.getKey();
            String setter = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
            Method method = null;
            for (Method candidate : message.getClass().getMethods()) {
                if (candidate.getName().equals(setter)) method = candidate;
            }
            if (method == null) throw new IllegalArgumentException(message.getClass() + " has no " + name);
            method.invoke(message, value(method.getGenericParameterTypes()[0], field.getValue()));
        }
    }

    private static Object value(Type type, JsonNode node) throws ReflectiveOperationException {
        if (node.isNull()) return null;
        if (type instanceof ParameterizedType list) return elements(new ArrayList<>(), list, node);
        Class<?> kind = (Class<?>) type;
        if (kind == byte.class || kind == Byte.class) return (byte) node.asInt();
        if (kind == short.class || kind == Short.class) return (short) node.asInt();
        if (kind == int.class || kind == Integer.class) return node.asInt();
        if (kind == long.class || kind == Long.class) return node.asLong();
        if (kind == double.class) return node.asDouble();
        if (kind == boolean.class) return node.asBoolean();
        if (kind == String.class) return node.asText();
        if (kind == Uuid.class) return Uuid.fromString(node.asText());
        if (kind == byte[].class) return Base64.getDecoder().decode(node.asText());
        if (kind == ByteBuffer.class) return ByteBuffer.wrap(Base64.getDecoder().decode(node.asText()));
        if (kind == BaseRecords.class) return records(node);
        if (ImplicitLinkedHashMultiCollection.class.isAssignableFrom(kind)) {
            Collection<Object> empty = emptyCollection(kind);
            return elements(empty, (ParameterizedType) kind.getGenericSuperclass(), node);
        }
        Object nested = kind.getDeclaredConstructor().newInstance();
        fill(nested, node);
        return nested;
    }

    @SuppressWarnings("unchecked")
    private static Collection<Object> emptyCollection(Class<?> kind) throws ReflectiveOperationException {
        return (Collection<Object>) kind.getDeclaredConstructor().newInstance();
    }

    private static Collection<Object> elements(Collection<Object> into, ParameterizedType type, JsonNode node)
            throws ReflectiveOperationException {
        for (JsonNode element : node) into.add(value(type.getActualTypeArguments()[0], element));
        return into;
    }

    /** The batches one after another; text is base64 of bytes as they are. */
    private static MemoryRecords records(JsonNode node) {
        if (node.isTextual()) return MemoryRecords.readableRecords(ByteBuffer.wrap(Base64.getDecoder().decode(node.asText())));
        List<ByteBuffer> batches = new ArrayList<>();
        int length = 0;
        for (JsonNode one : node) {
            ByteBuffer built = batch(one);
            batches.add(built);
            length += built.remaining();
        }
        ByteBuffer all = ByteBuffer.allocate(length);
        batches.forEach(all::put);
        all.flip();
        return MemoryRecords.readableRecords(all);
    }

    private static ByteBuffer batch(JsonNode node) {
        TimestampType times = node.path("logAppendTime").asBoolean() ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        long producerId = node.path("producerId").asLong(RecordBatch.NO_PRODUCER_ID);
        byte magic = (byte) node.path("magic").asInt(RecordBatch.CURRENT_MAGIC_VALUE);
        long now = System.currentTimeMillis();
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                new org.apache.kafka.common.utils.ByteBufferOutputStream(1024),
                magic,
                Compression.of(CompressionType.forName(node.path("codec").asText("none"))).build(),
                times,
                node.path("baseOffset").asLong(0),
                now,
                producerId,
                (short) node.path("producerEpoch").asInt(producerId < 0 ? RecordBatch.NO_PRODUCER_EPOCH : 0),
                node.path("baseSequence").asInt(producerId < 0 ? RecordBatch.NO_SEQUENCE : 0),
                node.path("isTransactional").asBoolean(),
                node.path("isControl").asBoolean(),
                node.path("partitionLeaderEpoch").asInt(RecordBatch.NO_PARTITION_LEADER_EPOCH),
                BATCH_BYTES_MAX);
        for (JsonNode record : node.get("records")) {
            long time = record.has("timestamp") ? record.get("timestamp").asLong() : now + record.path("age").asLong(0);
            List<Header> headers = new ArrayList<>();
            record.path("headers").fields().forEachRemaining(header ->
                    headers.add(new RecordHeader(header.getKey(), text(header.getValue()))));
            builder.append(time, text(record.get("key")), text(record.get("value")), headers.toArray(new Header[0]));
        }
        ByteBuffer built = builder.build().buffer();
        for (JsonNode change : node.path("changes")) {
            built.put(change.get("at").asInt(), (byte) change.get("to").asInt());
        }
        if (node.path("changes").size() > 0 && !node.path("badCrc").asBoolean()) setCrc(built);
        if (node.has("cut")) built.limit(built.limit() - node.get("cut").asInt());
        return built;
    }

    private static void setCrc(ByteBuffer batch) {
        CRC32C crc = new CRC32C();
        crc.update(batch.duplicate().position(CRC_AT + 4));
        batch.putInt(CRC_AT, (int) crc.getValue());
    }

    private static byte[] text(JsonNode node) {
        return node == null || node.isNull() ? null : node.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static JsonNode withDecodedRecords(JsonNode node) {
        if (node instanceof ArrayNode array) {
            for (JsonNode element : array) withDecodedRecords(element);
        } else if (node instanceof ObjectNode object) {
            if (object.get("records") instanceof BinaryNode binary) {
                object.set("records", decoded(ByteBuffer.wrap(binary.binaryValue())));
            }
            for (JsonNode element : object) withDecodedRecords(element);
        }
        return node;
    }

    private static ArrayNode decoded(ByteBuffer bytes) {
        ArrayNode batches = JsonNodeFactory.instance.arrayNode();
        for (RecordBatch batch : MemoryRecords.readableRecords(bytes).batches()) {
            ObjectNode one = batches.addObject()
                    .put("baseOffset", batch.baseOffset())
                    .put("lastOffset", batch.lastOffset())
                    .put("magic", batch.magic())
                    .put("codec", batch.compressionType().name)
                    .put("valid", batch.isValid())
                    .put("timestampType", batch.timestampType().name)
                    .put("maxTimestamp", batch.maxTimestamp())
                    .put("partitionLeaderEpoch", batch.partitionLeaderEpoch())
                    .put("producerId", batch.producerId())
                    .put("producerEpoch", batch.producerEpoch())
                    .put("baseSequence", batch.baseSequence())
                    .put("isTransactional", batch.isTransactional())
                    .put("isControlBatch", batch.isControlBatch());
            ArrayNode records = one.putArray("records");
            for (Record record : batch) records.add(decoded(record, batch.isControlBatch()));
        }
        return batches;
    }

    private static ObjectNode decoded(Record record, boolean isControl) {
        ObjectNode one = JsonNodeFactory.instance.objectNode()
                .put("offset", record.offset())
                .put("timestamp", record.timestamp())
                .put("key", decoded(record.hasKey() ? record.key() : null, isControl))
                .put("value", decoded(record.hasValue() ? record.value() : null, isControl));
        ObjectNode headers = one.putObject("headers");
        for (Header header : record.headers()) {
            headers.put(header.key(), header.value() == null ? null : new String(header.value(), StandardCharsets.UTF_8));
        }
        return one;
    }

    /** Control records are binary. */
    private static String decoded(ByteBuffer bytes, boolean isControl) {
        if (bytes == null) return null;
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return isControl ? Base64.getEncoder().encodeToString(copy) : new String(copy, StandardCharsets.UTF_8);
    }
}
