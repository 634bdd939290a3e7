// Dynamic RRIP as published (Jaleel 2010) and as crates/chip/src/ruled/rrip.rs has it, as a ChampSim
// module: ChampSim's own hears of no fill, and its sets that try are numbers beyond any cache.
#ifndef HALFWINK_DRRIP_H
#define HALFWINK_DRRIP_H

#include <algorithm>
#include <vector>

#include "cache.h"
#include "modules.h"

class halfwink_drrip : public champsim::modules::replacement
{
  static constexpr int DISTANT = 3, LONG = 2, BIMODAL = 32, LEADERS = 32, MOST = 1023;

  long sets, ways, every;
  int choice = MOST / 2, fills = 0;
  std::vector<int> values;

  int bimodal();
  long leader(long set) const;

public:
  explicit halfwink_drrip(CACHE* cache);

  long find_victim(uint32_t cpu, uint64_t instr, long set, const champsim::cache_block* blocks, champsim::address ip, champsim::address addr,
                   access_type type);
  void replacement_cache_fill(uint32_t cpu, long set, long way, champsim::address addr, champsim::address ip, champsim::address victim, access_type type);
  void update_replacement_state(uint32_t cpu, long set, long way, champsim::address addr, champsim::address ip, champsim::address victim, access_type type,
                                uint8_t hit);
};

#endif
