/* librdkafka under the same loads as our client. One JSON object on standard output.
 *
 *   produce BROKER TOPIC RECORDS RECORD_BYTES BATCH_BYTES LINGER_MS BUFFER_BYTES
 *   consume BROKER TOPIC PARTITIONS RECORDS
 *   rate, flow: as in peer.h
 */
#include "peer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VALUES = 64, POLL_MS = 100, SILENCE_POLLS_MAX = 300, TAKEN_MAX = 1000 };

static long failed;

void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void print(long records, long bytes, double seconds) {
  printf("{\"records\":%ld,\"bytes\":%ld,\"seconds\":%f}\n", records, bytes, seconds);
}

static void delivered(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
  (void)client;
  (void)opaque;
  if (message->err) failed++;
}

void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
  char why[256];
  if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK) fail(name, why);
}

static void produce(char **arguments) {
  const char *topic = arguments[1];
  long records = atol(arguments[2]);
  size_t record_bytes = (size_t)atol(arguments[3]);
  char kbytes[32], why[256];
  snprintf(kbytes, sizeof kbytes, "%ld", atol(arguments[6]) / 1024);
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  set(conf, "bootstrap.servers", arguments[0]);
  set(conf, "batch.size", arguments[4]);
  set(conf, "batch.num.messages", "100000");
  set(conf, "linger.ms", arguments[5]);
  set(conf, "queue.buffering.max.kbytes", kbytes);
  set(conf, "queue.buffering.max.messages", "1000000");
  set(conf, "enable.idempotence", "true");
  rd_kafka_conf_set_dr_msg_cb(conf, delivered);
  rd_kafka_t *client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
  if (!client) fail("producer", why);
  char *values = malloc(VALUES * record_bytes + 1);
  if (!values) fail("malloc", "no memory");
  unsigned seed = 3;
  for (size_t at = 0; at < VALUES * record_bytes; at++) values[at] = (char)rand_r(&seed);
  double begin = now();
  for (long number = 0; number < records; number++) {
    char *value = values + (size_t)(number % VALUES) * record_bytes;
    for (;;) {
      rd_kafka_resp_err_t error =
          rd_kafka_producev(client, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_VALUE(value, record_bytes),
                            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
      if (!error) break;
      if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) fail("produce", rd_kafka_err2str(error));
      rd_kafka_poll(client, POLL_MS);
    }
    if (number % 64 == 0) rd_kafka_poll(client, 0);
  }
  if (rd_kafka_flush(client, 120000)) fail("flush", "timed out");
  print(records - failed, (records - failed) * (long)record_bytes, now() - begin);
  rd_kafka_destroy(client);
  free(values);
}

static void consume(char **arguments) {
  int partitions = atoi(arguments[2]);
  long wanted = atol(arguments[3]), records = 0, bytes = 0;
  char why[256];
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  set(conf, "bootstrap.servers", arguments[0]);
  set(conf, "group.id", "bench-client-librdkafka");
  set(conf, "enable.auto.commit", "false");
  set(conf, "auto.offset.reset", "earliest");
  set(conf, "check.crcs", "true");
  rd_kafka_t *client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
  if (!client) fail("consumer", why);
  rd_kafka_poll_set_consumer(client);
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
  for (int index = 0; index < partitions; index++)
    rd_kafka_topic_partition_list_add(list, arguments[1], index)->offset = RD_KAFKA_OFFSET_BEGINNING;
  double begin = now();
  rd_kafka_resp_err_t error = rd_kafka_assign(client, list);
  if (error) fail("assign", rd_kafka_err2str(error));
  rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);
  static rd_kafka_message_t *taken[TAKEN_MAX];
  for (int silent = 0; records < wanted;) {
    ssize_t count = rd_kafka_consume_batch_queue(queue, POLL_MS, taken, TAKEN_MAX);
    if (count <= 0 && ++silent > SILENCE_POLLS_MAX) fail("consume", "nothing comes");
    for (ssize_t at = 0; at < count; at++) {
      if (!taken[at]->err) {
        records++;
        bytes += (long)taken[at]->len;
        silent = 0;
      }
      rd_kafka_message_destroy(taken[at]);
    }
  }
  print(records, bytes, now() - begin);
  rd_kafka_queue_destroy(queue);
  rd_kafka_topic_partition_list_destroy(list);
  rd_kafka_consumer_close(client);
  rd_kafka_destroy(client);
}

int main(int count, char **arguments) {
  if (count == 9 && !strcmp(arguments[1], "produce")) produce(arguments + 2);
  else if (count == 6 && !strcmp(arguments[1], "consume")) consume(arguments + 2);
  else if (count == 13 && !strcmp(arguments[1], "rate")) rate(arguments + 2);
  else if (count == 7 && !strcmp(arguments[1], "flow")) flow(arguments + 2);
  else fail("usage", "produce, consume, rate or flow, and what the head of the source says");
  return 0;
}
