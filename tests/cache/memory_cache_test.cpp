#include "cache/memory_cache.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

using nax::CacheBudget;
using nax::CacheKey;
using IntCache = nax::MemoryCache<int>;

namespace {

constexpr size_t kPlenty = 1 << 20;

struct WithHashBits {
  explicit WithHashBits(int bits) { nax::set_hash_bits(bits); }
  ~WithHashBits() { nax::set_hash_bits(128); }
};

std::string key_of(int i) { return "key" + std::to_string(i); }

std::shared_ptr<int> put(IntCache& cache, const std::string& key, int value, size_t bytes = 1) {
  return cache.insert(CacheKey(key), std::make_shared<int>(value), bytes);
}

bool has(IntCache& cache, const std::string& key) { return cache.find(CacheKey(key)) != nullptr; }

}  // namespace

TEST_CASE("what was inserted is found, everything else is a miss") {
  IntCache cache({10, kPlenty});
  CHECK_FALSE(has(cache, "a"));
  CHECK(*put(cache, "a", 1) == 1);
  CHECK(*cache.find(CacheKey("a")) == 1);
  CHECK_FALSE(has(cache, "a "));
  CHECK_FALSE(has(cache, ""));
  const auto stats = cache.stats();
  CHECK(stats.hits == 1);
  CHECK(stats.misses == 3);
  CHECK(stats.entries == 1);
  CHECK(stats.bytes == 2);
}

TEST_CASE("keys may hold any bytes") {
  IntCache cache({10, kPlenty});
  put(cache, std::string("a\0b", 3), 1);
  put(cache, std::string("a\0c", 3), 2);
  put(cache, "", 3);
  CHECK(*cache.find(CacheKey(std::string_view("a\0b", 3))) == 1);
  CHECK(*cache.find(CacheKey(std::string_view("a\0c", 3))) == 2);
  CHECK(*cache.find(CacheKey("")) == 3);
  CHECK_FALSE(has(cache, "a"));
}

TEST_CASE("the least recently used entry goes first") {
  IntCache cache({3, kPlenty});
  for (int i = 0; i < 3; ++i) put(cache, key_of(i), i);
  CHECK(has(cache, key_of(0)));
  put(cache, key_of(3), 3);
  CHECK(has(cache, key_of(0)));
  CHECK_FALSE(has(cache, key_of(1)));
  CHECK(has(cache, key_of(2)));
  CHECK(has(cache, key_of(3)));
  CHECK(cache.stats().evictions == 1);
}

TEST_CASE("bytes are bounded, keys included") {
  IntCache cache({100, 100});
  for (int i = 0; i < 50; ++i) {
    put(cache, key_of(i), i, 16);  // 20 or 21 bytes with the key
    CHECK(cache.stats().bytes <= 100);
  }
  CHECK(cache.stats().entries == 4);
  CHECK(has(cache, key_of(49)));
  CHECK_FALSE(has(cache, key_of(45)));

  SUBCASE("an entry above the whole budget is returned, not kept, and evicts nothing") {
    CHECK(*put(cache, "big", 7, 98) == 7);
    CHECK_FALSE(has(cache, "big"));
    CHECK(cache.stats().too_large == 1);
    CHECK(cache.stats().entries == 4);
  }
  SUBCASE("an entry of exactly the budget takes all of it") {
    put(cache, "all", 7, 97);
    CHECK(has(cache, "all"));
    CHECK(cache.stats().entries == 1);
    CHECK(cache.stats().bytes == 100);
  }
  SUBCASE("a size that overflows is too large") {
    put(cache, "huge", 7, SIZE_MAX);
    CHECK_FALSE(has(cache, "huge"));
    CHECK(cache.stats().bytes <= 100);
  }
}

TEST_CASE("budgets of 0 and 1 work") {
  for (const CacheBudget budget : {CacheBudget{0, kPlenty}, CacheBudget{5, 0}, CacheBudget{0, 0}}) {
    IntCache cache(budget);
    CHECK(*put(cache, "a", 1) == 1);
    CHECK_FALSE(has(cache, "a"));
    CHECK(cache.stats().entries == 0);
  }
  IntCache one({1, kPlenty});
  put(one, "a", 1);
  put(one, "b", 2);
  CHECK_FALSE(has(one, "a"));
  CHECK(*one.find(CacheKey("b")) == 2);
  IntCache one_byte({5, 1});
  put(one_byte, "", 1, 1);
  CHECK(has(one_byte, ""));
  put(one_byte, "", 1, 0);
  put(one_byte, "b", 2, 0);
  CHECK_FALSE(has(one_byte, ""));
  CHECK(has(one_byte, "b"));
}

TEST_CASE("the first insert of a key stays") {
  IntCache cache({4, kPlenty});
  const auto first = put(cache, "a", 1);
  CHECK(put(cache, "a", 2) == first);
  CHECK(*cache.find(CacheKey("a")) == 1);
  CHECK(cache.stats().entries == 1);
  CHECK(cache.stats().bytes == 2);
}

TEST_CASE("an evicted entry lives as long as it is used") {
  IntCache cache({1, kPlenty});
  put(cache, "a", 1);
  const auto in_use = cache.find(CacheKey("a"));
  std::weak_ptr<int> watch = in_use;
  put(cache, "b", 2);
  CHECK_FALSE(has(cache, "a"));
  CHECK(*in_use == 1);
  CHECK(watch.use_count() == 1);
}

TEST_CASE("erase, clear and a smaller budget release the values") {
  IntCache cache({10, kPlenty});
  std::vector<std::weak_ptr<int>> watch;
  for (int i = 0; i < 6; ++i) watch.push_back(put(cache, key_of(i), i));
  CHECK(cache.erase(CacheKey(key_of(5))));
  CHECK_FALSE(cache.erase(CacheKey(key_of(5))));
  CHECK(watch[5].expired());
  cache.set_budget({2, kPlenty});
  CHECK(watch[2].expired());
  CHECK_FALSE(watch[3].expired());
  CHECK(cache.stats().evictions == 3);
  cache.clear();
  CHECK(watch[4].expired());
  CHECK(cache.stats().entries == 0);
  CHECK(cache.stats().bytes == 0);
}

TEST_CASE("a value's destructor may use the cache") {
  struct Node {
    nax::MemoryCache<Node>* cache;
    ~Node() { cache->find(CacheKey("other")); }
  };
  nax::MemoryCache<Node> cache({1, kPlenty});
  cache.insert(CacheKey("a"), std::make_shared<Node>(&cache), 1);
  cache.insert(CacheKey("b"), std::make_shared<Node>(&cache), 1);
  CHECK(cache.stats().misses == 1);
  cache.clear();
  CHECK(cache.stats().misses == 2);
}

TEST_CASE("equal hashes never mix entries") {
  for (const int bits : {0, 1, 4}) {
    WithHashBits scope(bits);
    IntCache cache({200, kPlenty});
    for (int i = 0; i < 150; ++i) put(cache, key_of(i), i);
    for (int i = 0; i < 150; ++i) {
      const auto found = cache.find(CacheKey(key_of(i)));
      REQUIRE(found);
      CHECK(*found == i);
    }
    CHECK_FALSE(has(cache, key_of(150)));
    CHECK(cache.erase(CacheKey(key_of(7))));
    CHECK_FALSE(has(cache, key_of(7)));
    CHECK(has(cache, key_of(8)));
    cache.set_budget({10, kPlenty});
    CHECK(cache.stats().entries == 10);
  }
}

TEST_CASE("many threads share one small cache") {
  IntCache cache({16, kPlenty});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      unsigned state = 17u + static_cast<unsigned>(t);
      for (int i = 0; i < 20000; ++i) {
        state = state * 1664525u + 1013904223u;
        const int k = static_cast<int>((state >> 8) % 40);
        const std::string key = key_of(k);
        auto value = cache.find(CacheKey(key));
        if (!value) value = put(cache, key, k);
        if (*value != k) wrong++;
        if (i % 1000 == 0) cache.erase(CacheKey(key));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  const auto stats = cache.stats();
  CHECK(stats.entries <= 16);
  CHECK(stats.hits + stats.misses == 80000);
  CHECK(stats.evictions > 0);
}
