import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group (KIP-932) until it is stopped: prints what it receives with its delivery count, and the
 * acknowledgements that the broker has confirmed. Arguments: bootstrap servers, group, topic, and what it does with records:
 *
 * <ul>
 *   <li>{@code accept}
 *   <li>{@code retry}: releases a record at its first delivery, and accepts it later
 *   <li>{@code reject}
 *   <li>{@code hold}: neither acknowledges nor asks for more
 * </ul>
 */
public final class ShareMember {
  public static void main(String[] arguments) throws InterruptedException {
    String mode = arguments[3];
    Properties properties = new Properties();
    properties.put("bootstrap.servers", arguments[0]);
    properties.put("group.id", arguments[1]);
    properties.put("share.acknowledgement.mode", "explicit");
    StringDeserializer text = new StringDeserializer();
    KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties, text, text);
    consumer.setAcknowledgementCommitCallback((offsets, failure) -> {
      int count = offsets.values().stream().mapToInt(java.util.Set::size).sum();
      System.out.println(failure == null ? "ACK " + count : "FAILED " + failure);
    });
    consumer.subscribe(List.of(arguments[2]));
    Thread main = Thread.currentThread();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      consumer.wakeup();
      try {
        main.join();
      } catch (InterruptedException stopped) {
        main.interrupt();
      }
    }));
    System.out.println("READY");
    try {
      while (true) {
        boolean isAny = false;
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
          isAny = true;
          int deliveries = record.deliveryCount().orElse((short) 0);
          System.out.println("GOT " + record.value() + " " + deliveries);
          if (mode.equals("hold")) continue;
          boolean isFirst = deliveries == 1;
          consumer.acknowledge(record, switch (mode) {
            case "reject" -> AcknowledgeType.REJECT;
            case "retry" -> isFirst ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
            default -> AcknowledgeType.ACCEPT;
          });
        }
        if (isAny && mode.equals("hold")) Thread.sleep(Long.MAX_VALUE);
        consumer.commitSync();
      }
    } catch (WakeupException stopped) {
      consumer.close();
    }
  }
}
