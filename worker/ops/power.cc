#include "worker/ops/power.h"

#include <cmath>

namespace jacserve::worker {
namespace {

constexpr double kMostProducts = 16;  // a whole exponent up to here is a chain of products

std::string Products(Expansion& e, const std::string& x, int64_t p) {
  if (p == 1) return x;
  const std::string half = Products(e, x, p / 2), square = e.Add("Mul", {half, half});
  return p % 2 == 0 ? square : e.Add("Mul", {square, x});
}

}  // namespace

std::string AbsolutePower(Expansion& e, const std::string& x, double p) {
  if (std::fmod(p, 2.0) == 0 && p <= kMostProducts) return Products(e, x, static_cast<int64_t>(p));
  return PowerOrZero(e, e.Add("Abs", {x}), p);
}

std::string PowerOrZero(Expansion& e, const std::string& x, double p) {
  if (std::floor(p) == p && p <= kMostProducts) return Products(e, x, static_cast<int64_t>(p));
  const std::string zero = e.Add("Equal", {x, e.Number(0.0)});
  const std::string power = PositivePower(e, e.Add("Where", {zero, e.Number(1.0), x}), p);
  return e.Add("Where", {zero, e.Number(0.0), power});
}

std::string PositivePower(Expansion& e, const std::string& x, double p) {
  if (p == 0.5) return e.Add("Sqrt", {x});
  if (p == -0.5) return e.Add("Reciprocal", {e.Add("Sqrt", {x})});
  if (std::floor(p) == p && p > 0 && p <= kMostProducts) return Products(e, x, static_cast<int64_t>(p));
  if (std::floor(p) == p && p < 0 && -p <= kMostProducts) {
    return e.Add("Reciprocal", {Products(e, x, static_cast<int64_t>(-p))});
  }
  return e.Add("Exp", {e.Add("Mul", {e.Add("Log", {x}), e.Number(p)})});
}

}  // namespace jacserve::worker
