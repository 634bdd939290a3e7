#include "halfwink_drrip.h"

halfwink_drrip::halfwink_drrip(CACHE* cache)
    : replacement(cache), sets(cache->NUM_SET), ways(cache->NUM_WAY), every(std::max(cache->NUM_SET / LEADERS, 2u)), values(cache->NUM_SET * cache->NUM_WAY, DISTANT)
{
}

long halfwink_drrip::find_victim(uint32_t, uint64_t, long set, const champsim::cache_block*, champsim::address, champsim::address, access_type)
{
  auto begin = values.begin() + set * ways, end = begin + ways;
  auto victim = std::max_element(begin, end);
  int add = DISTANT - *victim;
  std::for_each(begin, end, [add](int& value) { value += add; });
  return victim - begin;
}

int halfwink_drrip::bimodal()
{
  fills = (fills + 1) % BIMODAL;
  return fills == 0 ? LONG : DISTANT;
}

// Ours counts the sets of one bank after those of the other.
long halfwink_drrip::leader(long set) const { return ((set & 1) * sets / 2 + (set >> 1)) % every; }

void halfwink_drrip::replacement_cache_fill(uint32_t, long set, long way, champsim::address, champsim::address, champsim::address, access_type type)
{
  int& value = values.at(set * ways + way);
  if (type == access_type::WRITE) {
    value = LONG;
  } else if (leader(set) == 0) {
    choice = std::min(choice + 1, MOST);
    value = LONG;
  } else if (leader(set) == 1) {
    choice = std::max(choice - 1, 0);
    value = bimodal();
  } else {
    value = choice > MOST / 2 ? bimodal() : LONG;
  }
}

void halfwink_drrip::update_replacement_state(uint32_t, long set, long way, champsim::address, champsim::address, champsim::address, access_type type,
                                              uint8_t hit)
{
  // Called for misses too, with a way that is none.
  if (hit)
    values.at(set * ways + way) = type == access_type::WRITE ? LONG : 0;
}
