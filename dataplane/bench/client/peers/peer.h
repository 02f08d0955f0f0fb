/* What the loads of the librdkafka program have in common. */
#ifndef PEER_H
#define PEER_H
#include <librdkafka/rdkafka.h>

/* What the library's statistics said so far. */
struct stats {
  long produce_requests, fetch_requests, received_bytes;
  /* Since the start: batches, and records in them. */
  double batches, batched_records;
};

enum { STATS_MS = 1000 };

void fail(const char *what, const char *why);
double now(void);
void set(rd_kafka_conf_t *conf, const char *name, const char *value);
/* Statistics go to `stats`, which is the conf's opaque from then on. */
void keep_stats(rd_kafka_conf_t *conf, struct stats *stats);

/* rate BROKER TOPIC,… PARTITIONS PRODUCERS RATE BURST_MS SECONDS WARMUP_SECONDS RECORD_BYTES LINGER_MS KEYS */
void rate(char **arguments);
/* flow BROKER TOPIC PARTITIONS SECONDS RECORDS (of each partition) */
void flow(char **arguments);
#endif
