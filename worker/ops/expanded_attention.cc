// Attention: y = softmax(softcap(s q k^T) + bias) v per head, where the bias is a mask, and -inf for keys that are not
// valid, lie outside the query's window or, if causal, come after the query. RotaryEmbedding: pairs (a, b) of x turned
// by an angle per position and pair: a' = cos a - sin b, b' = sin a + cos b. A query that may attend to no key gets 0.
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "worker/ops/attributes.h"
#include "worker/ops/op_table.h"

namespace jacserve::worker {
namespace {

constexpr size_t kMask = 3, kPastKey = 4, kPastValue = 5, kValidKeys = 6;

// [B, H, L, D]: a value per head, and its sizes.
struct Heads {
  std::string name;
  int64_t batch = 0, heads = 0, length = 0, size = 0;
};

absl::StatusOr<Heads> ReadHeads(Expansion& e, size_t input, const std::string& heads_attribute) {
  if (!e.in().has(input)) return absl::InvalidArgumentError("needs Q, K and V");
  const Shape& shape = e.shape(input);
  if (shape.size() == 4) return Heads{e.x(input), shape[0], shape[1], shape[2], shape[3]};
  ASSIGN_OR_RETURN(const int64_t heads, IntAttribute(e.node(), heads_attribute, 0));
  if (shape.size() != 3 || heads <= 0 || shape[2] % heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", input, " of shape ", ShapeText(shape), " does not fit ", heads, " heads"));
  }
  const int64_t size = shape[2] / heads;
  const std::string apart = e.Add("Reshape", {e.x(input), e.Ints({shape[0], shape[1], heads, size})});
  const std::string name = e.Add("Transpose", {apart}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  return Heads{name, shape[0], heads, shape[1], size};
}

// After what was there before: along the axis of positions.
void PutAfter(Expansion& e, size_t past, Heads& x) {
  if (!e.in().has(past) || e.shape(past).size() != 4) return;
  x.name = e.Add("Concat", {e.x(past), x.name}, {{"axis", int64_t{2}}});
  x.length += e.shape(past)[2];
}

// The keys j that query i sees: p - left <= j <= p + right with p = i + offset; -1: any.
struct Reach {
  int64_t left = -1, right = -1;
  bool all() const { return left < 0 && right < 0; }
  bool contains(int64_t from_p) const { return (left < 0 || from_p >= -left) && (right < 0 || from_p <= right); }
};

absl::StatusOr<Reach> ReachOf(const Expansion& e) {
  Reach reach;
  ASSIGN_OR_RETURN(reach.left, IntAttribute(e.node(), "left_window_size", -1));
  ASSIGN_OR_RETURN(reach.right, IntAttribute(e.node(), "right_window_size", -1));
  ASSIGN_OR_RETURN(const int64_t causal, IntAttribute(e.node(), "is_causal", 0));
  if (reach.left < -1 || reach.right < -1) return absl::InvalidArgumentError("a window of a negative size");
  if (causal != 0) reach.right = 0;
  return reach;
}

std::string Forbid(Expansion& e, const std::string& allowed) {
  return e.Add("Where", {allowed, e.Number(0.0), e.Number(-std::numeric_limits<double>::infinity())});
}

// The mask as a bias for all keys; keys that it does not reach are not looked at.
absl::StatusOr<std::string> MaskBias(Expansion& e, int64_t keys) {
  const Shape& shape = e.shape(kMask);
  if (shape.empty() || (shape.back() > keys && shape.back() != 1)) {
    return absl::InvalidArgumentError(absl::StrCat("a mask of shape ", ShapeText(shape), " for ", keys, " keys"));
  }
  const std::string bias = e.in()[kMask].dtype == DType::kBool ? Forbid(e, e.x(kMask)) : e.x(kMask);
  if (shape.back() == keys || shape.back() == 1) return bias;
  std::vector<int64_t> pads(2 * shape.size(), 0);
  pads.back() = keys - shape.back();
  return e.Add("Pad", {bias, e.Ints(pads), e.Number(-std::numeric_limits<double>::infinity())});
}

// [queries, keys]: j - i.
std::string Distances(Expansion& e, int64_t queries, int64_t keys) {
  std::vector<int64_t> distances(queries * keys);
  for (int64_t p = 0; p < queries * keys; ++p) distances[p] = p % keys - p / keys;
  return e.Add("Reshape", {e.Ints(std::move(distances)), e.Ints({queries, keys})}, {{"allowzero", int64_t{1}}});
}

// [queries, keys]: the keys in reach when `past` ones come before the first query.
std::string InReach(Expansion& e, const Reach& reach, int64_t queries, int64_t keys, int64_t past) {
  auto bytes = std::make_shared<std::vector<std::byte>>(queries * keys);
  for (int64_t p = 0; p < queries * keys; ++p) {
    (*bytes)[p] = static_cast<std::byte>(reach.contains(p % keys - p / keys - past));
  }
  return e.Add("Constant", {}, {{"value", HostTensor{DType::kBool, {queries, keys}, std::move(bytes)}}});
}

// Scores plus what the number of valid keys of each sample forbids: those behind them, and those out of reach of a
// query, where the last query looks from the last valid key.
std::string AddValidBias(Expansion& e, std::string scores, const Reach& reach, int64_t queries, int64_t keys) {
  const std::string valid = e.Add("Unsqueeze", {e.x(kValidKeys), e.Ints({1, 2, 3})});
  const auto forbid = [&](const std::string& allowed) { scores = e.Add("Add", {scores, Forbid(e, allowed)}); };
  std::vector<int64_t> places(keys);
  std::iota(places.begin(), places.end(), 0);
  forbid(e.Add("Less", {e.Ints(std::move(places)), valid}));
  if (reach.all()) return scores;
  const std::string distances = Distances(e, queries, keys);
  const auto from = [&](int64_t shift) { return e.Add("Add", {valid, e.Ints({shift - queries})}); };
  if (reach.right >= 0) forbid(e.Add("LessOrEqual", {distances, from(reach.right)}));
  if (reach.left >= 0) forbid(e.Add("GreaterOrEqual", {distances, from(-reach.left)}));
  return scores;
}

// Scores plus what the mask, the reach of a query and the number of valid keys forbid. `past`: keys before the first
// query.
absl::StatusOr<std::string> AddBias(Expansion& e, std::string scores, int64_t queries, int64_t keys, int64_t past) {
  if (e.in().has(kMask)) {
    ASSIGN_OR_RETURN(const std::string bias, MaskBias(e, keys));
    scores = e.Add("Add", {scores, bias});
  }
  ASSIGN_OR_RETURN(const Reach reach, ReachOf(e));
  const bool by_sample = e.in().has(kValidKeys);
  const int64_t most_pairs = int64_t{1} << (by_sample ? 23 : 26);  // 64 MiB of what a query may look at
  if ((by_sample || !reach.all()) && (queries > most_pairs || keys > most_pairs || queries * keys > most_pairs)) {
    return absl::UnimplementedError(absl::StrCat("a causal mask of ", queries, " queries and ", keys, " keys"));
  }
  if (by_sample) return AddValidBias(e, std::move(scores), reach, queries, keys);
  if (reach.all()) return scores;
  return e.Add("Add", {scores, Forbid(e, InReach(e, reach, queries, keys, past))});
}

// Softmax over the keys; 0 for a query that may look at none of them.
std::string Weights(Expansion& e, const std::string& scores) {
  const Expansion::Attributes last = {{"axis", int64_t{-1}}};
  const bool causal_alone =
      !e.in().has(kMask) && !e.in().has(kValidKeys) && !e.node().attributes.contains("left_window_size");
  if (causal_alone) return e.Add("Softmax", {scores}, last);  // a causal query looks at a key at least
  const std::string best = e.Add("ReduceMax", {scores, e.Ints({-1})});
  const std::string none = e.Add("Equal", {best, e.Number(-std::numeric_limits<double>::infinity())});
  const std::string zero = e.Number(0.0);
  const std::string weights = e.Add("Softmax", {e.Add("Where", {none, zero, scores})}, last);
  return e.Add("Where", {none, zero, weights});
}

// The turned pairs of x [.., R], under cos and sin that broadcast to [.., R / 2].
std::string Turned(Expansion& e, const std::string& x, const Shape& shape, const std::string& cos,
                   const std::string& sin, bool interleaved) {
  const int64_t half = shape.back() / 2;
  const std::string last = e.Ints({-1});
  const auto part = [&](int64_t begin, int64_t end, int64_t step) {
    return e.Add("Slice", {x, e.Ints({begin}), e.Ints({end}), last, e.Ints({step})});
  };
  const std::string a = interleaved ? part(0, 2 * half, 2) : part(0, half, 1);
  const std::string b = interleaved ? part(1, 2 * half, 2) : part(half, 2 * half, 1);
  std::string u = e.Add("Sub", {e.Add("Mul", {cos, a}), e.Add("Mul", {sin, b})});
  std::string v = e.Add("Add", {e.Add("Mul", {sin, a}), e.Add("Mul", {cos, b})});
  if (!interleaved) return e.Add("Concat", {u, v}, {{"axis", int64_t{-1}}});
  u = e.Add("Unsqueeze", {u, last});
  v = e.Add("Unsqueeze", {v, last});
  return e.Add("Reshape", {e.Add("Concat", {u, v}, {{"axis", int64_t{-1}}}), e.Ints(shape)});
}

}  // namespace

absl::Status ExpandAttention(Expansion& e, int) {
  ASSIGN_OR_RETURN(const Heads q, ReadHeads(e, 0, "q_num_heads"));
  ASSIGN_OR_RETURN(Heads k, ReadHeads(e, 1, "kv_num_heads"));
  ASSIGN_OR_RETURN(Heads v, ReadHeads(e, 2, "kv_num_heads"));
  const int64_t new_keys = k.length;
  PutAfter(e, kPastKey, k);
  PutAfter(e, kPastValue, v);
  if (k.heads == 0 || q.heads % k.heads != 0 || v.heads != k.heads || v.length != k.length || q.size != k.size) {
    return absl::InvalidArgumentError(absl::StrCat("heads of Q ", ShapeText(e.shape(0)), ", K ", ShapeText(e.shape(1)),
                                                   " and V ", ShapeText(e.shape(2)), " do not fit each other"));
  }
  ASSIGN_OR_RETURN(const double scale, FloatAttribute(e.node(), "scale", 0.0f));
  const double factor = scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(q.size));
  ASSIGN_OR_RETURN(const double softcap, FloatAttribute(e.node(), "softcap", 0.0f));
  ASSIGN_OR_RETURN(const int64_t mode, IntAttribute(e.node(), "qk_matmul_output_mode", 0));

  // Heads of Q that share one of K and V are a group of their own axis, along which those repeat.
  const int64_t group = q.heads / k.heads;
  const auto grouped = [&](const std::string& x, int64_t size) {
    return group == 1 ? x : e.Add("Reshape", {x, e.Ints({q.batch, k.heads, group, q.length, size})});
  };
  const auto joined = [&](const std::string& x, int64_t size) {
    return group == 1 ? x : e.Add("Reshape", {x, e.Ints({q.batch, q.heads, q.length, size})});
  };
  const auto repeated = [&](const std::string& x) { return group == 1 ? x : e.Add("Unsqueeze", {x, e.Ints({2})}); };
  const std::string scaled = e.Add("Mul", {q.name, e.Number(factor)});
  const std::string keys = e.Add("Transpose", {k.name}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  std::string scores = joined(e.Add("MatMul", {grouped(scaled, q.size), repeated(keys)}), k.length);
  if (mode == 0) e.Output(3, scores);
  if (softcap > 0) {
    const std::string cap = e.Number(softcap);
    scores = e.Add("Mul", {e.Add("Tanh", {e.Add("Div", {scores, cap})}), cap});
  }
  if (mode == 1) e.Output(3, scores);
  ASSIGN_OR_RETURN(scores, AddBias(e, scores, q.length, k.length, k.length - new_keys));
  if (mode == 2) e.Output(3, scores);
  const std::string weights = Weights(e, scores);
  if (mode == 3) e.Output(3, weights);
  std::string y = joined(e.Add("MatMul", {grouped(weights, k.length), repeated(v.name)}), v.size);
  if (e.shape(0).size() == 3) {
    y = e.Add("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    y = e.Add("Reshape", {y, e.Ints({q.batch, q.length, q.heads * v.size})});
  }
  e.Output(0, y);
  e.Output(1, k.name);
  e.Output(2, v.name);
  return absl::OkStatus();
}

absl::Status ExpandRotaryEmbedding(Expansion& e, int) {
  if (!e.in().has(0) || !e.in().has(1) || !e.in().has(2)) return absl::InvalidArgumentError("needs three inputs");
  ASSIGN_OR_RETURN(const int64_t interleaved, IntAttribute(e.node(), "interleaved", 0));
  ASSIGN_OR_RETURN(const int64_t heads, IntAttribute(e.node(), "num_heads", 0));
  Shape shape = e.shape(0);
  std::string x = e.x(0);
  const bool flat = shape.size() == 3;
  if (flat && heads > 0 && shape[2] % heads == 0) {
    shape = {shape[0], shape[1], heads, shape[2] / heads};
    x = e.Add("Reshape", {x, e.Ints(shape)});
  }
  ASSIGN_OR_RETURN(int64_t turned, IntAttribute(e.node(), "rotary_embedding_dim", 0));
  if (turned == 0) turned = shape.back();
  if (shape.size() != 4 || turned < 0 || turned > shape[3] || turned % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", ShapeText(e.shape(0)), " with ", heads, " heads, of which ", turned, " are turned"));
  }
  const auto of_positions = [&](size_t cache) {
    const std::string angles = e.in().has(3) ? e.Add("Gather", {e.x(cache), e.x(3)}) : e.x(cache);
    return e.Add("Unsqueeze", {angles, e.Ints({flat ? 2 : 1})});  // the axis of heads
  };
  const std::string cos = of_positions(1), sin = of_positions(2);
  std::string y = x;
  Shape part = shape;
  part.back() = turned;
  if (turned == shape.back()) {
    y = Turned(e, x, part, cos, sin, interleaved != 0);
  } else {
    const std::string last = e.Ints({-1});
    const std::string front = e.Add("Slice", {x, e.Ints({0}), e.Ints({turned}), last});
    const std::string rest = e.Add("Slice", {x, e.Ints({turned}), e.Ints({shape.back()}), last});
    y = e.Add("Concat", {Turned(e, front, part, cos, sin, interleaved != 0), rest}, {{"axis", int64_t{-1}}});
  }
  e.Output(0, flat ? e.Add("Reshape", {y, e.Ints(e.shape(0))}) : y);
  return absl::OkStatus();
}

}  // namespace jacserve::worker
