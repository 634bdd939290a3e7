// The 21264's predictor of crates/chip/src/branch.rs as a ChampSim module: the same tables and
// counters, so that both simulators predict alike from the same records.
#ifndef HALFWINK_TOURNAMENT_H
#define HALFWINK_TOURNAMENT_H

#include <array>
#include <cstdint>

#include "address.h"
#include "modules.h"

class halfwink_tournament : champsim::modules::branch_predictor
{
  std::array<uint16_t, 1024> histories{};
  std::array<uint8_t, 1024> local;
  std::array<uint8_t, 4096> global;
  std::array<uint8_t, 4096> chooser;
  std::size_t path = 0;

  static std::size_t index(champsim::address ip);

public:
  explicit halfwink_tournament(O3_CPU* cpu) : branch_predictor(cpu)
  {
    local.fill(3);
    global.fill(1);
    chooser.fill(1);
  }

  bool predict_branch(champsim::address ip);
  void last_branch_result(champsim::address ip, champsim::address target, bool taken, uint8_t type);
};

#endif
