#include "halfwink_ship.h"

halfwink_ship::halfwink_ship(CACHE* cache)
    : replacement(cache), ways(cache->NUM_WAY), lines(cache->NUM_SET * cache->NUM_WAY), counters(SIGNATURES, 1)
{
}

long halfwink_ship::find_victim(uint32_t, uint64_t, long set, const champsim::cache_block*, champsim::address, champsim::address, access_type)
{
  auto begin = lines.begin() + set * ways, end = begin + ways;
  auto victim = std::max_element(begin, end, [](const line& a, const line& b) { return a.value < b.value; });
  int add = DISTANT - victim->value;
  std::for_each(begin, end, [add](line& l) { l.value += add; });
  return victim - begin;
}

void halfwink_ship::replacement_cache_fill(uint32_t, long set, long way, champsim::address, champsim::address ip, champsim::address, access_type type)
{
  line& l = lines.at(set * ways + way);
  if (l.filled && !l.used)
    counters[l.signature] = std::max(counters[l.signature] - 1, 0);
  auto pc = ip.to<uint64_t>() & 0x7fffffff;
  bool write = type == access_type::WRITE;
  std::size_t signature = write ? 0 : (pc ^ pc >> 14 ^ pc >> 28) % SIGNATURES;
  l = line{!write && counters[signature] == 0 ? DISTANT : LONG, signature, false, true};
}

void halfwink_ship::update_replacement_state(uint32_t, long set, long way, champsim::address, champsim::address, champsim::address, access_type type,
                                             uint8_t hit)
{
  // Called for misses too, with a way that is none.
  if (!hit || type == access_type::WRITE)
    return;
  line& l = lines.at(set * ways + way);
  l.value = 0;
  l.used = true;
  counters[l.signature] = std::min(counters[l.signature] + 1, MOST);
}
