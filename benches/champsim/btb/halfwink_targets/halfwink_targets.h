// Targets as crates/chip/src/branch.rs predicts them, as a ChampSim module: direct ones are known
// (once seen: ChampSim has no instruction to read them from), indirect ones are the last target in a
// tagged table, returns come from a stack. ENTRIES and DEPTH are those of matched.toml.
#ifndef HALFWINK_TARGETS_H
#define HALFWINK_TARGETS_H

#include <array>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>

#include "address.h"
#include "modules.h"

class halfwink_targets : champsim::modules::btb
{
  static constexpr std::size_t ENTRIES = 512;
  static constexpr std::size_t DEPTH = 32;

  std::unordered_map<uint64_t, champsim::address> direct;
  std::array<std::pair<uint64_t, champsim::address>, ENTRIES> indirect;
  std::deque<uint64_t> calls;
  // ChampSim's records have no lengths: what a call's return said last. Until then five bytes.
  std::unordered_map<uint64_t, uint64_t> call_bytes;

  static std::size_t index(uint64_t pc);

public:
  explicit halfwink_targets(O3_CPU* cpu) : btb(cpu) { indirect.fill({~uint64_t{}, champsim::address{}}); }

  std::pair<champsim::address, bool> btb_prediction(champsim::address ip, uint8_t type);
  void update_btb(champsim::address ip, champsim::address target, bool taken, uint8_t type);
};

#endif
