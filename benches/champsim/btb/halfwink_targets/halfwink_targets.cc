#include "halfwink_targets.h"

#include "instruction.h"

std::size_t halfwink_targets::index(uint64_t pc)
{
  return (((pc ^ (pc >> 12)) * 0x9e3779b97f4a7c15ULL) >> 40) & (ENTRIES - 1);
}

std::pair<champsim::address, bool> halfwink_targets::btb_prediction(champsim::address ip, uint8_t type)
{
  const auto pc = ip.to<uint64_t>();
  if (type == BRANCH_RETURN) {
    if (calls.empty())
      return {champsim::address{}, true};
    const auto known = call_bytes.find(calls.back());
    return {champsim::address{calls.back() + (known == call_bytes.end() ? 5 : known->second)}, true};
  }
  if (type == BRANCH_INDIRECT || type == BRANCH_INDIRECT_CALL) {
    const auto& entry = indirect[index(pc)];
    return {entry.first == pc ? entry.second : champsim::address{}, true};
  }
  const auto known = direct.find(pc);
  const auto always = type == BRANCH_DIRECT_JUMP || type == BRANCH_DIRECT_CALL;
  return {known == direct.end() ? champsim::address{} : known->second, always};
}

void halfwink_targets::update_btb(champsim::address ip, champsim::address target, bool taken, uint8_t type)
{
  const auto pc = ip.to<uint64_t>();
  if (type == BRANCH_INDIRECT || type == BRANCH_INDIRECT_CALL)
    indirect[index(pc)] = {pc, target};
  else if (type != BRANCH_RETURN && taken)
    direct[pc] = target;
  if (type == BRANCH_DIRECT_CALL || type == BRANCH_INDIRECT_CALL) {
    calls.push_back(pc);
    if (calls.size() > DEPTH)
      calls.pop_front();
  }
  if (type == BRANCH_RETURN && !calls.empty()) {
    const auto bytes = target.to<uint64_t>() - calls.back();
    if (bytes >= 2 && bytes <= 10)
      call_bytes[calls.back()] = bytes;
    calls.pop_back();
  }
}
