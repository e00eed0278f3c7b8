#include "worker/backend/cpu/broadcast.h"

#include <algorithm>
#include <array>

#include "worker/backend/cpu/elementwise.h"

namespace jacserve::worker::cpu {
namespace {

constexpr int64_t kBlock = 512;  // numbers of an operand that are brought together at a time
constexpr size_t kMostAxes = 17;

struct Operand {
  ConstLanes lanes;  // no data: not read
  Shape strides;
};

// The axes of a shape, merged where all operands allow it; the innermost one is a run.
template <size_t N>
class Runs {
 public:
  Runs(const Shape& shape, const std::array<Operand, N>& operands) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] == 0) empty_ = true;
      if (shape[axis] == 1) continue;
      Axis own{shape[axis], {}};
      for (size_t v = 0; v < N; ++v) own.step[v] = operands[v].lanes.data ? operands[v].strides[axis] : 0;
      if (count_ > 0 && Continues(axes_[count_ - 1], own)) {
        own.size *= axes_[count_ - 1].size;
        axes_[count_ - 1] = own;
      } else {
        axes_[count_++] = own;
      }
    }
    if (count_ > 0) run_ = axes_[--count_];
  }

  // visit(offset of each operand) for every run, in C order.
  template <class Visit>
  void ForEach(Visit visit) const {
    if (empty_) return;
    std::array<int64_t, N> offset{};
    std::array<int64_t, kMostAxes> at{};
    while (true) {
      visit(offset);
      size_t axis = count_;
      for (; axis > 0; --axis) {
        const Axis& own = axes_[axis - 1];
        const bool wraps = ++at[axis - 1] == own.size;
        for (size_t v = 0; v < N; ++v) offset[v] += own.step[v] - (wraps ? own.step[v] * own.size : 0);
        if (!wraps) break;
        at[axis - 1] = 0;
      }
      if (axis == 0) return;
    }
  }

  int64_t size() const { return run_.size; }
  int64_t step(size_t operand) const { return run_.step[operand]; }

 private:
  struct Axis {
    int64_t size = 1;
    std::array<int64_t, N> step{};
  };
  static bool Continues(const Axis& before, const Axis& own) {
    for (size_t v = 0; v < N; ++v) {
      if (before.step[v] != own.step[v] * own.size) return false;
    }
    return true;
  }

  std::array<Axis, kMostAxes> axes_;
  size_t count_ = 0;
  Axis run_;
  bool empty_ = false;
};

// visit(runs, pointers of the lane's operands + the run's offsets) for all lanes. Lanes that lie at even distances are
// one more axis.
template <class T, size_t N, class Visit>
void ForEachRun(int64_t lanes, Shape shape, std::array<Operand, N> operands, Visit visit) {
  const bool even = std::all_of(operands.begin(), operands.end(),
                                [](const Operand& operand) { return operand.lanes.index == nullptr; });
  if (even) {
    shape.insert(shape.begin(), lanes);
    for (Operand& operand : operands) operand.strides.insert(operand.strides.begin(), operand.lanes.stride);
    lanes = 1;
  }
  const Runs<N> runs(shape, operands);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    std::array<const T*, N> base;
    for (size_t v = 0; v < N; ++v) base[v] = operands[v].lanes.template At<T>(lane);
    runs.ForEach([&](const std::array<int64_t, N>& offset) {
      std::array<const T*, N> at;
      for (size_t v = 0; v < N; ++v) at[v] = base[v] ? base[v] + offset[v] : nullptr;
      visit(runs, at);
    });
  }
}

// Numbers begin .. begin + n of a run in one stretch: in place, or brought into the buffer.
template <class T>
const T* Stretch(const T* run, int64_t step, int64_t begin, int64_t n, T* buffer) {
  if (run == nullptr) return buffer;
  if (step == 1) return run + begin;
  if (step == 0) {
    std::fill_n(buffer, n, *run);
  } else {
    for (int64_t p = 0; p < n; ++p) buffer[p] = run[(begin + p) * step];
  }
  return buffer;
}

// What was computed for numbers begin .. begin + n of a run goes where it belongs.
template <class T>
void Put(const T* term, int64_t begin, int64_t n, T* run, int64_t step, bool accumulate) {
  if (!accumulate) {
    for (int64_t p = 0; p < n; ++p) run[(begin + p) * step] = term[p];
  } else if (step == 1) {
    AddScaled(n, T(1), term, run + begin);
  } else if (step == 0) {
    *run += Sum(n, term);
  } else {
    for (int64_t p = 0; p < n; ++p) run[(begin + p) * step] += term[p];
  }
}

}  // namespace

template <class T>
void BroadcastBinary(BinaryFunction f, int64_t lanes, const Shape& shape, ConstLanes a, const Shape& a_strides,
                     ConstLanes b, const Shape& b_strides, Lanes out) {
  const std::array<Operand, 3> operands = {Operand{a, a_strides}, {b, b_strides}, {out, RowMajorStrides(shape)}};
  ForEachRun<T, 3>(lanes, shape, operands, [&](const Runs<3>& runs, const std::array<const T*, 3>& at) {
    std::array<T, kBlock> left, right, result;
    const bool direct = runs.step(2) == 1;  // not where the lanes themselves are the run
    const bool square = f == BinaryFunction::kPow && runs.step(1) == 0 && *at[1] == T(2);
    for (int64_t begin = 0; begin < runs.size(); begin += kBlock) {
      const int64_t n = std::min(kBlock, runs.size() - begin);
      const T* u = Stretch(at[0], runs.step(0), begin, n, left.data());
      T* const to = const_cast<T*>(at[2]);
      T* const y = direct ? to + begin : result.data();
      if (square) {
        BinaryForward(BinaryFunction::kMul, n, u, u, y);
      } else {
        BinaryForward(f, n, u, Stretch(at[1], runs.step(1), begin, n, right.data()), y);
      }
      if (!direct) Put(y, begin, n, to, runs.step(2), false);
    }
  });
}

template <class T>
void BroadcastTerm(BinaryFunction f, int side, int64_t lanes, const Shape& shape, const BinaryOperands& at,
                   ConstLanes v, const Shape& v_strides, Lanes out, const Shape& out_strides, bool accumulate) {
  const int bits = DerivativeReads(f, side);
  const std::array<Operand, 5> operands = {Operand{bits & kReadsA ? at.a : ConstLanes{}, at.a_strides},
                                           {bits & kReadsB ? at.b : ConstLanes{}, at.b_strides},
                                           {bits & kReadsY ? at.y : ConstLanes{}, RowMajorStrides(shape)},
                                           {v, v_strides},
                                           {out, out_strides}};
  ForEachRun<T, 5>(lanes, shape, operands, [&](const Runs<5>& runs, const std::array<const T*, 5>& run) {
    std::array<T, kBlock> a_buffer, b_buffer, y_buffer, v_buffer, term;
    T* const to = const_cast<T*>(run[4]);
    const bool direct = !accumulate && runs.step(4) == 1;
    const bool square = f == BinaryFunction::kPow && side == 0 && runs.step(1) == 0 && *run[1] == T(2);
    for (int64_t begin = 0; begin < runs.size(); begin += kBlock) {
      const int64_t n = std::min(kBlock, runs.size() - begin);
      const T* a = Stretch(run[0], runs.step(0), begin, n, a_buffer.data());
      const T* factor = Stretch(run[3], runs.step(3), begin, n, v_buffer.data());
      T* result = direct ? to + begin : term.data();
      if (square) {
        BinaryTerm(BinaryFunction::kMul, 1, n, a, a, a, factor, result);
        BinaryForward(BinaryFunction::kAdd, n, result, result, result);
      } else {
        const T* b = Stretch(run[1], runs.step(1), begin, n, b_buffer.data());
        BinaryTerm(f, side, n, a, b, Stretch(run[2], runs.step(2), begin, n, y_buffer.data()), factor, result);
      }
      if (!direct) Put(term.data(), begin, n, to, runs.step(4), accumulate);
    }
  });
}

template <class T>
void BroadcastSelect(int64_t lanes, const Shape& shape, ConstLanes c, const Shape& c_strides, ConstLanes a,
                     const Shape& a_strides, ConstLanes b, const Shape& b_strides, Lanes out) {
  const std::array<Operand, 4> operands = {
      Operand{c, c_strides}, {a, a_strides}, {b, b_strides}, {out, RowMajorStrides(shape)}};
  ForEachRun<T, 4>(lanes, shape, operands, [&](const Runs<4>& runs, const std::array<const T*, 4>& at) {
    std::array<T, kBlock> c_buffer, a_buffer, b_buffer, result;
    const bool direct = runs.step(3) == 1;
    for (int64_t begin = 0; begin < runs.size(); begin += kBlock) {
      const int64_t n = std::min(kBlock, runs.size() - begin);
      T* const to = const_cast<T*>(at[3]);
      Select(n, Stretch(at[0], runs.step(0), begin, n, c_buffer.data()),
             Stretch(at[1], runs.step(1), begin, n, a_buffer.data()),
             Stretch(at[2], runs.step(2), begin, n, b_buffer.data()), direct ? to + begin : result.data());
      if (!direct) Put(result.data(), begin, n, to, runs.step(3), false);
    }
  });
}

#define X(T)                                                                                                    \
  template void BroadcastBinary<T>(BinaryFunction, int64_t, const Shape&, ConstLanes, const Shape&, ConstLanes, \
                                   const Shape&, Lanes);                                                        \
  template void BroadcastTerm<T>(BinaryFunction, int, int64_t, const Shape&, const BinaryOperands&, ConstLanes, \
                                 const Shape&, Lanes, const Shape&, bool);                                      \
  template void BroadcastSelect<T>(int64_t, const Shape&, ConstLanes, const Shape&, ConstLanes, const Shape&,   \
                                   ConstLanes, const Shape&, Lanes);
JACSERVE_CPU_TYPES(X)
#undef X

}  // namespace jacserve::worker::cpu
