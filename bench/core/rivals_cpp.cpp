// Rivals in C++: Boost.Lockfree's queue and moodycamel's.
#include "contender.h"

#include <boost/lockfree/queue.hpp>
#include <concurrentqueue/concurrentqueue.h>
#include <memory>
#include <new>
#include <vector>

namespace {

using boost_queue = boost::lockfree::queue<std::uint64_t>;

void *boost_make(unsigned producers, std::uint64_t items) {
    // All nodes beforehand: bounded_push() takes from those alone, and is lock-free because it never
    // allocates.
    return new (std::nothrow) boost_queue(items * producers + 1);
}

void boost_destroy(void *object) { delete static_cast<boost_queue *>(object); }

inline bool boost_push(boost_queue *queue, unsigned,
                       std::uint64_t value) { return queue->bounded_push(value); }

inline bool boost_take(boost_queue *queue, unsigned, std::uint64_t *value) { return queue->pop(*value); }

struct moodycamel_queue {
    moodycamel::ConcurrentQueue<std::uint64_t> queue;
    std::vector<moodycamel::ProducerToken> producer;
    std::vector<moodycamel::ConsumerToken> consumer;

    moodycamel_queue(unsigned producers, std::uint64_t items) : queue(items, producers, 0) {
        for (unsigned i = 0; i < producers; i++) producer.emplace_back(queue);
        for (unsigned i = 0; i < CONSUMERS; i++) consumer.emplace_back(queue);
    }
};

void *moodycamel_make(unsigned producers, std::uint64_t items) {
    return new (std::nothrow) moodycamel_queue(producers, items * producers);
}

void moodycamel_destroy(void *object) { delete static_cast<moodycamel_queue *>(object); }

inline bool moodycamel_push(moodycamel_queue *queue, unsigned producer, std::uint64_t value) {
    return queue->queue.enqueue(queue->producer[producer], value);
}

inline bool moodycamel_take(moodycamel_queue *queue, unsigned consumer, std::uint64_t *value) {
    return queue->queue.try_dequeue(queue->consumer[consumer], *value);
}

} // namespace

extern "C" {
CONTENDER(boost, boost_queue, "Boost.Lockfree queue", false, true, "nodes made beforehand")
CONTENDER(moodycamel, moodycamel_queue, "moodycamel", false, false,
          "takes its blocks from malloc; no order across producers")
}
