// Recurrent networks, unrolled. With x_t the step's part of x W^T + Wb + Rb, h and c the state before, * elementwise:
// RNN:  h' = f(x_t + h R^T).
// GRU:  z, r = f(x_t + h R^T), n = g(x_t + (r * h) R^T), h' = (1 - z) * n + z * h. With linear_before_reset Rb is not
//       in x_t but in z, r = f(x_t + h R^T + Rb), n = g(x_t + r * (h R^T + Rb)).
// LSTM: i, f = f(x_t + h R^T + p * c), n = g(x_t + h R^T), c' = f * c + i * n, o = f(x_t + h R^T + p * c'),
//       h' = o * h(c'); with input_forget f = 1 - i.
// A state that is not given is zero: the products with it are left out. A sequence that has ended keeps its state, and
// its outputs are zero. `clip` holds the input of every activation, as ONNX states it: of h, too, in h(c').
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"
#include "worker/ops/recurrent_parts.h"

namespace jacserve::worker {
namespace {

// x + h R^T; either may be left out.
std::string Recur(Expansion& e, const std::string& x, const std::string& h, const std::string& r) {
  if (h.empty()) return x;
  Expansion::Names in = {h, r};
  if (!x.empty()) in.push_back(x);
  return e.Add("Gemm", in, {{"transB", int64_t{1}}});
}

std::string OneMinus(Expansion& e, const std::string& x) { return e.Add("Sub", {e.Number(1.0), x}); }

// a * b, where an empty operand is zero and so is the product.
std::string Product(Expansion& e, const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? "" : e.Add("Mul", {a, b});
}

// Gates come in the order z, r, n. `r_gates`, `r_new`: rows of R, read where the reset comes first.
std::string GruStep(Expansion& e, RecurrentExpansion& parts, const Cell& cell, const std::string& r_gates,
                    const std::string& r_new, const std::string& x, const std::string& h) {
  const int64_t n = parts.hidden();
  std::string gates, recurrent;  // recurrent: what the state before adds to n
  if (r_gates.empty()) {
    const std::string all = parts.Add(Recur(e, "", h, cell.r), cell.rb);
    const std::string sum = parts.Add(parts.Part(x, 0, 2 * n), all.empty() ? "" : parts.Part(all, 0, 2 * n));
    gates = parts.Apply(cell.f[0], sum);
    recurrent = all.empty() ? "" : Product(e, parts.Part(gates, n, 2 * n), parts.Part(all, 2 * n, 3 * n));
  } else {
    gates = parts.Apply(cell.f[0], Recur(e, parts.Part(x, 0, 2 * n), h, r_gates));
    recurrent = h.empty() ? "" : Recur(e, "", Product(e, parts.Part(gates, n, 2 * n), h), r_new);
  }
  const std::string fresh = parts.Apply(cell.f[1], parts.Add(parts.Part(x, 2 * n, 3 * n), recurrent));
  const std::string z = parts.Part(gates, 0, n);
  return parts.Add(e.Add("Mul", {OneMinus(e, z), fresh}), Product(e, z, h));
}

struct LstmState {
  std::string h, c;
};

// Gates come in the order i, o, f, c; peepholes i, o, f.
LstmState LstmStep(Expansion& e, RecurrentExpansion& parts, const Cell& cell, const std::string& x,
                   const LstmState& before, bool input_forget) {
  const int64_t n = parts.hidden();
  const std::string sum = Recur(e, x, before.h, cell.r);
  const Expansion::Names gates = e.AddMany("Split", {sum}, 4, {{"axis", int64_t{-1}}, {"num_outputs", int64_t{4}}});
  const auto peep = [&](int64_t k, const std::string& c) {
    return cell.p.empty() || c.empty() ? "" : e.Add("Mul", {c, parts.Part(cell.p, k * n, (k + 1) * n)});
  };
  const std::string i = parts.Apply(cell.f[0], parts.Add(gates[0], peep(0, before.c)));
  const std::string fresh = parts.Apply(cell.f[1], gates[3]);
  std::string kept;
  if (!before.c.empty()) {
    const std::string f =
        input_forget ? OneMinus(e, i) : parts.Apply(cell.f[0], parts.Add(gates[2], peep(2, before.c)));
    kept = e.Add("Mul", {f, before.c});
  }
  LstmState after;
  after.c = parts.Add(kept, e.Add("Mul", {i, fresh}));
  const std::string o = parts.Apply(cell.f[0], parts.Add(gates[1], peep(1, after.c)));
  after.h = e.Add("Mul", {o, parts.Apply(cell.f[2], after.c)});
  return after;
}

}  // namespace

absl::Status ExpandRNN(Expansion& e, int opset) {
  RecurrentExpansion parts(e, 1, {"Tanh"});
  RETURN_IF_ERROR(parts.Read(opset));
  for (int64_t d = 0; d < parts.directions(); ++d) {
    const Cell cell = parts.Direction(d, true);
    std::vector<std::string> states;
    for (const std::string& x : cell.x) {
      const std::string h = states.empty() ? cell.h0 : states.back();
      states.push_back(parts.Hold(d, states.size(), parts.Apply(cell.f[0], Recur(e, x, h, cell.r)), h));
    }
    parts.States(d, std::move(states), "");
  }
  parts.Finish();
  return absl::OkStatus();
}

absl::Status ExpandGRU(Expansion& e, int opset) {
  RecurrentExpansion parts(e, 3, {"Sigmoid", "Tanh"});
  RETURN_IF_ERROR(parts.Read(opset));
  ASSIGN_OR_RETURN(const int64_t linear_before_reset, IntAttribute(e.node(), "linear_before_reset", 0));
  const int64_t n = parts.hidden();
  for (int64_t d = 0; d < parts.directions(); ++d) {
    const Cell cell = parts.Direction(d, linear_before_reset == 0);
    std::string r_gates, r_new;
    if (linear_before_reset == 0) {
      r_gates = e.Add("Slice", {cell.r, e.Ints({0}), e.Ints({2 * n}), e.Ints({0})});
      r_new = e.Add("Slice", {cell.r, e.Ints({2 * n}), e.Ints({3 * n}), e.Ints({0})});
    }
    std::vector<std::string> states;
    for (const std::string& x : cell.x) {
      const std::string h = states.empty() ? cell.h0 : states.back();
      states.push_back(parts.Hold(d, states.size(), GruStep(e, parts, cell, r_gates, r_new, x, h), h));
    }
    parts.States(d, std::move(states), "");
  }
  parts.Finish();
  return absl::OkStatus();
}

absl::Status ExpandLSTM(Expansion& e, int opset) {
  RecurrentExpansion parts(e, 4, {"Sigmoid", "Tanh", "Tanh"});
  RETURN_IF_ERROR(parts.Read(opset));
  ASSIGN_OR_RETURN(const int64_t input_forget, IntAttribute(e.node(), "input_forget", 0));
  for (int64_t d = 0; d < parts.directions(); ++d) {
    const Cell cell = parts.Direction(d, true);
    LstmState state{cell.h0, cell.c0};
    std::vector<std::string> states;
    for (const std::string& x : cell.x) {
      const LstmState after = LstmStep(e, parts, cell, x, state, input_forget != 0);
      state = {parts.Hold(d, states.size(), after.h, state.h), parts.Hold(d, states.size(), after.c, state.c)};
      states.push_back(state.h);
    }
    parts.States(d, std::move(states), state.c);
  }
  parts.Finish();
  return absl::OkStatus();
}

}  // namespace jacserve::worker
