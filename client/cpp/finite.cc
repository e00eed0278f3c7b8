// Built once for each instruction set that the processor may have; the best one is chosen when it runs.
#include "client/cpp/finite.h"

#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "client/cpp/finite.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace jacserve::client::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A float is not finite where all bits of its exponent are set. Four registers a turn hide the latency of loads.
template <class Bits>
bool NoExponentIsFull(const uint8_t* bytes, size_t count, Bits exponent) {
  const hn::ScalableTag<Bits> d;
  const size_t lanes = hn::Lanes(d), turn = 4 * lanes;
  const auto full = hn::Set(d, exponent);
  const auto is_full = [&](size_t i) HWY_ATTR {
    const auto bits = hn::LoadU(d, reinterpret_cast<const Bits*>(bytes + i * sizeof(Bits)));
    return hn::VecFromMask(d, hn::Eq(hn::And(bits, full), full));
  };
  auto found = hn::Zero(d);
  size_t i = 0;
  for (; i + turn <= count; i += turn) {
    const auto a = hn::Or(is_full(i), is_full(i + lanes)), b = hn::Or(is_full(i + 2 * lanes), is_full(i + 3 * lanes));
    found = hn::Or(found, hn::Or(a, b));
  }
  bool any = !hn::AllTrue(d, hn::Eq(found, hn::Zero(d)));
  for (; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof bits);
    any |= (bits & exponent) == exponent;
  }
  return !any;
}

bool AllFinite32(const uint8_t* bytes, size_t count) { return NoExponentIsFull<uint32_t>(bytes, count, 0x7f800000u); }
bool AllFinite64(const uint8_t* bytes, size_t count) {
  return NoExponentIsFull<uint64_t>(bytes, count, 0x7ff0000000000000u);
}

}  // namespace jacserve::client::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace jacserve::client {

HWY_EXPORT(AllFinite32);
HWY_EXPORT(AllFinite64);

bool AllFinite(std::span<const std::byte> bytes, DType dtype) {
  const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
  const size_t count = bytes.size() / static_cast<size_t>(SizeOf(dtype));
  return dtype == DType::kFloat64 ? HWY_DYNAMIC_DISPATCH(AllFinite64)(first, count)
                                  : HWY_DYNAMIC_DISPATCH(AllFinite32)(first, count);
}

}  // namespace jacserve::client
#endif
