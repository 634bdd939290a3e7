#include "halfwink_bimodal.h"

#include "instruction.h"

std::size_t halfwink_bimodal::index(champsim::address ip)
{
  const auto pc = ip.to<uint64_t>();
  return (((pc ^ (pc >> 12)) * 0x9e3779b97f4a7c15ULL) >> 40) % ENTRIES;
}

bool halfwink_bimodal::predict_branch(champsim::address ip) { return counters[index(ip)] >= 2; }

void halfwink_bimodal::last_branch_result(champsim::address ip, champsim::address, bool taken, uint8_t type)
{
  // ChampSim asks and tells of every branch; the direction of the others is no news.
  if (type != BRANCH_CONDITIONAL && type != BRANCH_OTHER)
    return;
  auto& counter = counters[index(ip)];
  if (taken && counter < 3)
    ++counter;
  if (!taken && counter > 0)
    --counter;
}
