import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Commits and aborts 20 transactions with offsets: arguments are servers, topic, transactional id. */
public class Transactional {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[2]);
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            producer.initTransactions();
            for (int number = 0; number < 20; number++) {
                producer.beginTransaction();
                for (int one = 0; one < 10; one++) {
                    byte[] value = (number + "-" + one).getBytes();
                    producer.send(new ProducerRecord<>(arguments[1], one % 2, null, value));
                }
                producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(arguments[1], 0), new OffsetAndMetadata(number)),
                    new ConsumerGroupMetadata(arguments[2]));
                if (number % 3 == 2) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
    }
}
