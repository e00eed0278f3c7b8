// What LSTM, GRU and RNN share as graphs of others, unrolled over time: one product of all steps with W, then each
// step's own part, then the outputs put together. Each operator adds its cell.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/ops/expansion.h"

namespace jacserve::worker {

// f(x) by the name that the attribute `activations` gives it.
struct Activation {
  std::string name;
  float alpha = 0.0f, beta = 0.0f;
};

// One direction of one operator. `g` gates of H numbers each.
struct Cell {
  std::string r;               // [g H, H]
  std::string rb;              // [g H], or empty: what is added to h R^T apart from x
  std::string p;               // [3 H], or empty: peepholes
  std::string h0, c0;          // [B, H], or empty: zero
  std::vector<std::string> x;  // x W^T + Wb (+ Rb) per step, [B, g H], in this direction's order
  std::vector<Activation> f;
};

class RecurrentExpansion {
 public:
  // `gates`: rows of W per hidden number; `functions`: activations per direction, by default `defaults`.
  RecurrentExpansion(Expansion& e, int64_t gates, std::vector<std::string> defaults)
      : e_(e), gates_(gates), defaults_(std::move(defaults)) {}

  // InvalidArgument: shapes that do not fit. Unimplemented: too many steps of time.
  absl::Status Read(int opset);
  int64_t directions() const { return directions_; }
  int64_t hidden() const { return hidden_; }
  int64_t steps() const { return steps_; }
  // `one_bias`: Rb is added to x W^T too, once for all steps.
  Cell Direction(int64_t d, bool one_bias);

  std::string Apply(const Activation& f, std::string x);  // f(x), after the clip when there is one
  std::string Clip(const std::string& x);
  std::string Add(const std::string& a, const std::string& b);  // either may be empty: zero
  // Numbers [begin, end) of x's last axis.
  std::string Part(const std::string& x, int64_t begin, int64_t end);

  // `after`, or where a sequence has ended before step k of direction d, the state before, which may be empty: zero.
  std::string Hold(int64_t d, size_t k, const std::string& after, const std::string& before);
  // States [B, H] of one direction, in the order in which it made them. `c`: what Y_c ends with, when there is one.
  void States(int64_t d, std::vector<std::string> h, const std::string& c);
  void Finish();

 private:
  absl::Status ReadActivations();
  absl::Status CheckShapes() const;
  absl::Status ReadLengths();
  bool Reversed(int64_t d) const { return d == 1 || direction_ == "reverse"; }
  std::string OfDirection(size_t input, int64_t d, int64_t axis);
  std::string Joined(const std::vector<std::string>& values, int64_t axis);

  Expansion& e_;
  int64_t gates_;
  std::vector<std::string> defaults_;
  std::string direction_;
  int64_t layout_ = 0, directions_ = 1, hidden_ = 0, steps_ = 0;
  std::optional<double> clip_;
  std::vector<Activation> functions_;
  std::vector<std::string> runs_;            // by time: which sequences are that long, [B, 1]; empty: all of them
  std::vector<std::vector<std::string>> h_;  // by direction and place in time
  std::vector<std::string> last_h_, last_c_;
};

}  // namespace jacserve::worker
