import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a group until it is stopped: prints how many partitions it has whenever that changes, and what it
 * receives. Arguments: bootstrap servers, group, topics or a pattern behind a slash, protocol.
 */
public final class GroupMember {
  public static void main(String[] arguments) {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", arguments[0]);
    properties.put("group.id", arguments[1]);
    properties.put("group.protocol", arguments[3]);
    properties.put("auto.offset.reset", "earliest");
    properties.put("auto.commit.interval.ms", "200");
    // A topic that the pattern matches later is found soon.
    properties.put("metadata.max.age.ms", "1000");
    StringDeserializer text = new StringDeserializer();
    KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, text, text);
    ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
      @Override
      public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

      @Override
      public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        System.out.println("HAS " + consumer.assignment().size());
      }
    };
    String topics = arguments[2];
    if (topics.startsWith("/")) {
      consumer.subscribe(new SubscriptionPattern(topics.substring(1)), listener);
    } else {
      consumer.subscribe(List.of(topics.split(",")), listener);
    }
    Thread main = Thread.currentThread();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      consumer.wakeup();
      try {
        main.join();
      } catch (InterruptedException stopped) {
        main.interrupt();
      }
    }));
    try {
      while (true) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
          System.out.println("GOT " + record.value());
        }
      }
    } catch (WakeupException stopped) {
      consumer.close();
    }
  }
}
