// The bimodal predictor of crates/chip/src/branch.rs as a ChampSim module: the same table, index
// and counters, so that both simulators predict alike from the same records.
#ifndef HALFWINK_BIMODAL_H
#define HALFWINK_BIMODAL_H

#include <array>
#include <cstdint>

#include "address.h"
#include "modules.h"

class halfwink_bimodal : champsim::modules::branch_predictor
{
  static constexpr std::size_t ENTRIES = 2048;

  std::array<uint8_t, ENTRIES> counters;

  static std::size_t index(champsim::address ip);

public:
  explicit halfwink_bimodal(O3_CPU* cpu) : branch_predictor(cpu) { counters.fill(1); }

  bool predict_branch(champsim::address ip);
  void last_branch_result(champsim::address ip, champsim::address target, bool taken, uint8_t type);
};

#endif
