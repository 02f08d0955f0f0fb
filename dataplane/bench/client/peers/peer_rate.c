/* Producers at a fixed rate. Latencies count from when a record was due, whether or not earlier ones
 * were sent in time. RATE is of each producer; the records of BURST_MS are due at once. */
#include "peer.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VALUES = 64, KEY_BYTES = 8, TOPICS_MAX = 64, FLUSH_MS = 120000, POLL_MS = 10 };

static char *topics[TOPICS_MAX];
static int topic_count, producer_count;
static long per_second, burst, records, warmup, record_bytes;
static const char *broker, *linger_ms, *keys;
static double begin;
static atomic_long *by_partition;
static int partition_count;

struct producer {
  /* First, so that the library's opaque is both. */
  struct stats stats;
  rd_kafka_t *client;
  pthread_t sender, poller;
  atomic_int done;
  int index;
  /* By number: seconds, negative where the record failed. */
  double *latencies;
};

static double due(const struct producer *producer, long number) {
  double period = (double)burst / (double)per_second;
  /* The producers' bursts alternate. */
  double first = begin + period * producer->index / producer_count;
  return first + (double)(number / burst) * period;
}

static void wait_until(double time) {
  struct timespec until = {(time_t)time, (long)((time - (double)(time_t)time) * 1e9)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
  }
}

/* The message's opaque is the record's number. */
static void delivered(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
  (void)client;
  struct producer *producer = opaque;
  if (message->err) return;
  long number = (long)(intptr_t)message->_private;
  producer->latencies[number] = now() - due(producer, number);
  if (message->partition < partition_count) atomic_fetch_add(&by_partition[message->partition], 1);
}

static void *poll_always(void *argument) {
  struct producer *producer = argument;
  while (!atomic_load(&producer->done)) rd_kafka_poll(producer->client, POLL_MS);
  return NULL;
}

static void *send_all(void *argument) {
  struct producer *producer = argument;
  unsigned seed = (unsigned)producer->index;
  char *values = malloc((size_t)(VALUES * record_bytes) + 1);
  if (!values) fail("malloc", "no memory");
  for (long at = 0; at < VALUES * record_bytes; at++) values[at] = (char)rand_r(&seed);
  int mixed = !strcmp(keys, "mixed"), none = !strcmp(keys, "none"), sequential = !strcmp(keys, "sequential");
  for (long number = 0; number < records; number++) {
    wait_until(due(producer, number));
    /* Half of each topic's records have a key where keys are mixed. */
    int with_key = !none && (!mixed || number / topic_count % 2 == 0);
    uint64_t key = sequential ? (uint64_t)number : (uint64_t)rand_r(&seed) << 32 | (uint64_t)rand_r(&seed);
    char bytes[KEY_BYTES];
    for (int at = 0; at < KEY_BYTES; at++) bytes[at] = (char)(key >> (8 * (KEY_BYTES - 1 - at)));
    rd_kafka_resp_err_t error;
    while ((error = rd_kafka_producev(
                producer->client, RD_KAFKA_V_TOPIC(topics[number % topic_count]),
                RD_KAFKA_V_KEY(with_key ? bytes : NULL, with_key ? (size_t)KEY_BYTES : 0),
                RD_KAFKA_V_VALUE(values + number % VALUES * record_bytes, (size_t)record_bytes),
                RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE((void *)(intptr_t)number),
                RD_KAFKA_V_END)) == RD_KAFKA_RESP_ERR__QUEUE_FULL)
      wait_until(now() + 0.001);
    if (error) fail("produce", rd_kafka_err2str(error));
  }
  if (rd_kafka_flush(producer->client, FLUSH_MS)) fail("flush", "timed out");
  /* The last statistics. */
  wait_until(now() + STATS_MS * 1.2 / 1e3);
  atomic_store(&producer->done, 1);
  free(values);
  return NULL;
}

static void start(struct producer *producer) {
  char why[256];
  producer->latencies = malloc((size_t)records * sizeof(double));
  if (!producer->latencies) fail("malloc", "no memory");
  for (long number = 0; number < records; number++) producer->latencies[number] = -1;
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  set(conf, "bootstrap.servers", broker);
  set(conf, "batch.size", "16384");
  set(conf, "linger.ms", linger_ms);
  set(conf, "enable.idempotence", "true");
  /* Java's for keys. */
  set(conf, "partitioner", "murmur2_random");
  keep_stats(conf, &producer->stats);
  rd_kafka_conf_set_dr_msg_cb(conf, delivered);
  producer->client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
  if (!producer->client) fail("producer", why);
  if (pthread_create(&producer->poller, NULL, poll_always, producer) ||
      pthread_create(&producer->sender, NULL, send_all, producer))
    fail("pthread_create", "no thread");
}

static int compare(const void *one, const void *other) {
  double difference = *(const double *)one - *(const double *)other;
  return (difference > 0) - (difference < 0);
}

static void print(struct producer *producers) {
  long count = 0, requests = 0;
  double batches = 0, batched = 0;
  double *all = malloc((size_t)(producer_count * (records - warmup)) * sizeof(double));
  if (!all) fail("malloc", "no memory");
  for (int index = 0; index < producer_count; index++) {
    for (long number = warmup; number < records; number++)
      if (producers[index].latencies[number] >= 0) all[count++] = producers[index].latencies[number];
    requests += producers[index].stats.produce_requests;
    batches += producers[index].stats.batches;
    batched += producers[index].stats.batched_records;
  }
  if (!count || batches <= 0) fail("rate", "no record was acknowledged");
  qsort(all, (size_t)count, sizeof *all, compare);
  printf("{\"records\":%ld,\"p50_ms\":%f,\"p99_ms\":%f,\"max_ms\":%f,\"requests\":%ld,\"records_per_batch\":%f", count,
         all[(count * 50 + 99) / 100 - 1] * 1e3, all[(count * 99 + 99) / 100 - 1] * 1e3, all[count - 1] * 1e3, requests,
         batched / batches);
  printf(",\"by_partition\":[");
  for (int index = 0; index < partition_count; index++)
    printf("%s%ld", index ? "," : "", atomic_load(&by_partition[index]));
  printf("]}\n");
  free(all);
}

void rate(char **arguments) {
  broker = arguments[0];
  for (char *topic = strtok(arguments[1], ","); topic && topic_count < TOPICS_MAX; topic = strtok(NULL, ","))
    topics[topic_count++] = topic;
  partition_count = atoi(arguments[2]);
  producer_count = atoi(arguments[3]);
  per_second = atol(arguments[4]);
  burst = per_second * atol(arguments[5]) / 1000;
  if (burst < 1) burst = 1;
  warmup = per_second * atol(arguments[7]);
  records = warmup + per_second * atol(arguments[6]);
  record_bytes = atol(arguments[8]);
  linger_ms = arguments[9];
  keys = arguments[10];
  by_partition = calloc((size_t)partition_count, sizeof *by_partition);
  struct producer *producers = calloc((size_t)producer_count, sizeof *producers);
  if (!by_partition || !producers) fail("calloc", "no memory");
  begin = now() + 0.5;
  for (int index = 0; index < producer_count; index++) {
    producers[index].index = index;
    start(&producers[index]);
  }
  for (int index = 0; index < producer_count; index++) {
    pthread_join(producers[index].sender, NULL);
    pthread_join(producers[index].poller, NULL);
    rd_kafka_destroy(producers[index].client);
  }
  print(producers);
}
