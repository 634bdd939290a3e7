#include "halfwink_tournament.h"

#include "instruction.h"

namespace
{
void train(uint8_t& counter, bool up, uint8_t max)
{
  if (up && counter < max)
    ++counter;
  if (!up && counter > 0)
    --counter;
}
} // namespace

std::size_t halfwink_tournament::index(champsim::address ip)
{
  const auto pc = ip.to<uint64_t>();
  return (((pc ^ (pc >> 12)) * 0x9e3779b97f4a7c15ULL) >> 40) & 1023;
}

bool halfwink_tournament::predict_branch(champsim::address ip)
{
  return chooser[path] >= 2 ? global[path] >= 2 : local[histories[index(ip)]] >= 4;
}

void halfwink_tournament::last_branch_result(champsim::address ip, champsim::address, bool taken, uint8_t type)
{
  // ChampSim asks and tells of every branch; the direction of the others is no news.
  if (type != BRANCH_CONDITIONAL && type != BRANCH_OTHER)
    return;
  auto& history = histories[index(ip)];
  const bool local_says = local[history] >= 4;
  const bool global_says = global[path] >= 2;
  if (local_says != global_says)
    train(chooser[path], global_says == taken, 3);
  train(local[history], taken, 7);
  train(global[path], taken, 3);
  history = static_cast<uint16_t>(((history << 1) | static_cast<uint16_t>(taken)) & 1023);
  path = ((path << 1) | static_cast<std::size_t>(taken)) & 4095;
}
