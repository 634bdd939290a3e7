// SHiP as published (Wu 2011) and as crates/chip/src/ruled/rrip.rs has it, as a ChampSim module:
// ChampSim's own hears of no fill, and its sets that learn are numbers beyond any cache.
#ifndef HALFWINK_SHIP_H
#define HALFWINK_SHIP_H

#include <algorithm>
#include <vector>

#include "cache.h"
#include "modules.h"

class halfwink_ship : public champsim::modules::replacement
{
  static constexpr int DISTANT = 3, LONG = 2, SIGNATURES = 1 << 14, MOST = 7;

  struct line {
    int value = DISTANT;
    std::size_t signature = 0;
    bool used = false, filled = false;
  };

  long ways;
  std::vector<line> lines;
  std::vector<int> counters;

public:
  explicit halfwink_ship(CACHE* cache);

  long find_victim(uint32_t cpu, uint64_t instr, long set, const champsim::cache_block* blocks, champsim::address ip, champsim::address addr,
                   access_type type);
  void replacement_cache_fill(uint32_t cpu, long set, long way, champsim::address addr, champsim::address ip, champsim::address victim, access_type type);
  void update_replacement_state(uint32_t cpu, long set, long way, champsim::address addr, champsim::address ip, champsim::address victim, access_type type,
                                uint8_t hit);
};

#endif
