#include "device/hbm/hbm.h"

#include <doctest/doctest.h>
#include <setjmp.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "device/hbm/host_memory.h"

using nax::Allocation;
using nax::Hbm;
using nax::HostMemory;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::unique_ptr<Hbm> make_hbm(uint64_t capacity, bool poison = false) {
  Hbm::Options options;
  options.capacity = capacity;
  options.poison = poison;
  auto hbm = Hbm::create(options);
  REQUIRE(hbm.ok());
  return std::move(hbm).value();
}

Allocation* must_reserve(Hbm& hbm, size_t bytes) {
  auto a = hbm.reserve(bytes);
  REQUIRE(a.ok());
  return a.value();
}

sigjmp_buf g_fault;
void on_fault(int) { siglongjmp(g_fault, 1); }

[[maybe_unused]] bool reading_faults(uintptr_t address) {
  struct sigaction action = {}, old;
  action.sa_handler = on_fault;
  sigaction(SIGSEGV, &action, &old);
  volatile bool faulted = true;  // changed between sigsetjmp and siglongjmp
  if (sigsetjmp(g_fault, 1) == 0) {
    (void)*reinterpret_cast<volatile char*>(address);
    faulted = false;
  }
  sigaction(SIGSEGV, &old, nullptr);
  return faulted;
}

}  // namespace

TEST_CASE("hbm: addresses are unique, aligned, and never host memory") {
  auto hbm = make_hbm(512 * kMiB);
  std::vector<Allocation*> all;
  std::vector<std::pair<uintptr_t, uintptr_t>> ranges;
  for (size_t bytes : {0, 0, 1, 511, 512, 513, 4096, 65536, 1 << 20, (1 << 20) - 1, (4 << 20) - 1,
                       4 << 20, 9 << 20, 0})
    for (int i = 0; i < 3; ++i) {
      Allocation* a = must_reserve(*hbm, bytes);
      CHECK(a->bytes() == bytes);
      CHECK(a->host() == nullptr);
      CHECK(a->address() % 512 == 0);
      CHECK(hbm->is_device_address(a->address()));
      all.push_back(a);
      ranges.emplace_back(a->address(), a->address() + bytes + 1);
    }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) CHECK(ranges[i].first >= ranges[i - 1].second);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(reading_faults(all[0]->address()));
  CHECK(hbm->materialize(*all[6]).ok());
  CHECK(reading_faults(all[6]->address()));
  CHECK_FALSE(reading_faults(reinterpret_cast<uintptr_t>(all[6]->host())));
#endif
  for (Allocation* a : all) hbm->release(a);
  CHECK(hbm->stats().charged == 0);
  CHECK(hbm->stats().physical == 0);
  CHECK(hbm->stats().allocations == hbm->stats().frees);
}

TEST_CASE("hbm: find") {
  auto hbm = make_hbm(64 * kMiB);
  for (size_t bytes :
       {size_t{0}, size_t{100}, size_t{512}, size_t{1024}, size_t{1} << 20, size_t{13} << 20}) {
    Allocation* a = must_reserve(*hbm, bytes);
    for (size_t offset : {size_t{0}, bytes / 2, bytes}) {
      auto found = hbm->find(a->address() + offset);
      CHECK(found.allocation == a);
      CHECK(found.offset == offset);
    }
    CHECK(hbm->find(a->address() + bytes + 1).allocation == nullptr);
    CHECK(hbm->find(a->address() - 1).allocation != a);
    const uintptr_t address = a->address();
    hbm->release(a);
    CHECK(hbm->find(address).allocation == nullptr);
  }
  int on_the_host = 0;
  CHECK(hbm->find(reinterpret_cast<uintptr_t>(&on_the_host)).allocation == nullptr);
  CHECK_FALSE(hbm->is_device_address(reinterpret_cast<uintptr_t>(&on_the_host)));
  CHECK(hbm->find(0).allocation == nullptr);
}

TEST_CASE("hbm: capacity is charged at reserve, memory at materialize") {
  auto hbm = make_hbm(1 * kMiB);
  Allocation* a = must_reserve(*hbm, 700 * 1024);
  CHECK(hbm->stats().charged == 700 * 1024);
  CHECK(hbm->stats().physical == 0);
  auto too_much = hbm->reserve(400 * 1024);
  REQUIRE_FALSE(too_much.ok());
  CHECK(too_much.status().code() == nax::StatusCode::kResourceExhausted);
  CHECK(too_much.status().reason() == nax::ErrorReason::kHbmExhausted);
  const std::string message(too_much.status().message());
  CHECK(message.find("409600") != std::string::npos);
  CHECK(message.find("1048576") != std::string::npos);
  CHECK(message.find("716800") != std::string::npos);
  CHECK(hbm->stats().ooms == 1);
  CHECK_FALSE(hbm->reserve(std::numeric_limits<size_t>::max()).ok());
  CHECK_FALSE(hbm->reserve(std::numeric_limits<size_t>::max() - 600).ok());
  Allocation* rest = must_reserve(*hbm, 324 * 1024);  // exactly full
  CHECK_FALSE(hbm->reserve(1).ok());
  Allocation* empty = must_reserve(*hbm, 0);
  hbm->release(rest);
  CHECK(hbm->materialize(*a).ok());
  CHECK(hbm->materialize(*empty).value() != nullptr);
  CHECK(hbm->stats().physical == 700 * 1024);
  hbm->release(a);
  CHECK(hbm->stats().charged == 0);
  CHECK(hbm->stats().charged_peak == 1 * kMiB);
  CHECK(hbm->stats().physical_peak == 700 * 1024);
  hbm->reset_peaks();
  CHECK(hbm->stats().charged_peak == 0);
  CHECK(hbm->stats().physical_peak == 0);
  hbm->release(empty);
}

TEST_CASE("hbm: bad capacity, injected failure") {
  CHECK_FALSE(Hbm::create({}).ok());
  auto hbm = make_hbm(kMiB);
  hbm->set_fail_reserve_at(2);
  Allocation* first = must_reserve(*hbm, 10);
  CHECK(hbm->reserve(10).status().reason() == nax::ErrorReason::kHbmExhausted);
  Allocation* third = must_reserve(*hbm, 10);
  hbm->release(first);
  hbm->release(third);
}

TEST_CASE("hbm: memory is aligned, writable to its end, and its own") {
  auto hbm = make_hbm(256 * kMiB);
  std::vector<Allocation*> all;
  for (size_t bytes = 1; bytes < 20 * kMiB; bytes = bytes * 3 + 7) {
    for (int i = 0; i < 2; ++i) {
      Allocation* a = must_reserve(*hbm, bytes);
      auto host = hbm->materialize(*a);
      REQUIRE(host.ok());
      CHECK(reinterpret_cast<uintptr_t>(*host) % (bytes > 65536 ? 4096 : 64) == 0);
      CHECK(hbm->materialize(*a).value() == *host);
      std::memset(*host, static_cast<int>(all.size() + 1), bytes);
      all.push_back(a);
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const auto* p = static_cast<const unsigned char*>(all[i]->host());
    CHECK(p[0] == i + 1);
    CHECK(p[all[i]->bytes() - 1] == i + 1);
  }
  for (Allocation* a : all) hbm->release(a);
}

TEST_CASE("hbm: freed memory is reused, trim gives it back") {
  auto hbm = make_hbm(64 * kMiB);
  for (size_t bytes : {size_t{100}, size_t{200000}, size_t{6} << 20}) {
    Allocation* a = must_reserve(*hbm, bytes);
    void* host = hbm->materialize(*a).value();
    hbm->release(a);
    const uint64_t mapped = hbm->stats().mapped;
    CHECK(mapped >= bytes);
    Allocation* b = must_reserve(*hbm, bytes);
    CHECK(hbm->materialize(*b).value() == host);
    CHECK(hbm->stats().mapped == mapped);
    hbm->release(b);
  }
  CHECK(hbm->trim() >= 200000 + (6 << 20));
  CHECK(hbm->stats().mapped < 4096);
  CHECK(hbm->trim() == 0);
  Allocation* again = must_reserve(*hbm, 200000);
  std::memset(hbm->materialize(*again).value(), 1, 200000);
  hbm->release(again);
}

TEST_CASE("hbm: free lists stay within capacity when sizes change") {
  auto hbm = make_hbm(32 * kMiB);
  for (size_t mib = 5; mib < 30; ++mib) {
    Allocation* a = must_reserve(*hbm, mib * kMiB);
    CHECK(hbm->materialize(*a).ok());
    CHECK(hbm->stats().mapped <= 40 * kMiB);  // one block rounds up by at most a quarter
    hbm->release(a);
  }
}

TEST_CASE("hbm: poison") {
  auto hbm = make_hbm(kMiB, true);
  Allocation* a = must_reserve(*hbm, 256);
  auto* p = static_cast<float*>(hbm->materialize(*a).value());
  CHECK(p[0] != p[0]);
  p[3] = 1.0f;
  hbm->release(a);
  uint32_t bits;
  std::memcpy(&bits, p + 3, 4);
  CHECK(bits == 0xffffffffu);
}

TEST_CASE("hbm: large ranges come back whole") {
  Hbm::Options options;
  options.capacity = 64 * kMiB;
  options.address_space = 1;  // the least: 64 x capacity is wanted, so 4 GiB
  auto hbm = Hbm::create(options).value();
  for (int round = 0; round < 200; ++round) {
    std::vector<Allocation*> live;
    for (size_t mib = 1; mib <= 10; ++mib) live.push_back(must_reserve(*hbm, mib * kMiB));
    for (size_t i : {3, 1, 4, 0, 9, 2, 6, 5, 8, 7}) hbm->release(live[i]);
  }
  Allocation* whole = must_reserve(*hbm, 64 * kMiB);
  hbm->release(whole);
}

TEST_CASE("hbm: random use by several threads") {
  auto hbm = make_hbm(256 * kMiB);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 rng(t);
      std::vector<Allocation*> live;
      for (int i = 0; i < 4000; ++i) {
        if (live.size() > 40 || (!live.empty() && rng() % 2)) {
          const size_t k = rng() % live.size();
          Allocation* a = live[k];
          if (a->host() && *static_cast<uintptr_t*>(a->host()) != a->address()) ++wrong;
          if (hbm->find(a->address() + 8).allocation != a) ++wrong;
          hbm->release(a);
          live[k] = live.back();
          live.pop_back();
        } else {
          const size_t bytes = 8 + rng() % (rng() % 50 == 0 ? 1500000 : 5000);
          auto a = hbm->reserve(bytes);
          if (!a.ok()) {
            ++wrong;
            continue;
          }
          if (rng() % 2) *static_cast<uintptr_t*>(hbm->materialize(**a).value()) = (*a)->address();
          live.push_back(*a);
        }
      }
      for (Allocation* a : live) hbm->release(a);
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(hbm->stats().charged == 0);
  CHECK(hbm->stats().physical == 0);
}

TEST_CASE("host_memory: size classes") {
  size_t last = 0;
  int last_index = -1;
  for (size_t bytes = 1; bytes < 300000; ++bytes) {
    const auto c = HostMemory::size_class(bytes);
    if (c.size < bytes || c.size % 64 != 0 || c.size > bytes + bytes / 4 + 64)
      FAIL("class of " << bytes);
    if (c.size != last) {
      if (c.index != last_index + 1) FAIL("index of " << bytes);
      last = c.size, last_index = c.index;
    } else if (c.index != last_index) {
      FAIL("index of " << bytes);
    }
  }
  CHECK(HostMemory::size_class(0).size == 64);
  CHECK(HostMemory::size_class(size_t{1} << 40).size == size_t{1} << 40);
}
