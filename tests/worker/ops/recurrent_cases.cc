// Cases of recurrent networks and attention.
#include "tests/worker/ops/op_builder.h"

namespace jacserve::worker {
namespace {

using Strings = std::vector<std::string>;

struct Net {
  std::string op;
  int64_t gates = 1, directions = 1;
  bool bias = true, states = false, peepholes = false, layout = false, lengths = false;
};

constexpr int64_t kSteps = 3, kInputs = 2, kHidden = 2;

// The last state of all, and with `sequence` all states.
void AddNet(std::vector<OpCase>& cases, const std::string& name, const Net& net, Attributes attributes,
            bool sequence = true) {
  OpCaseBuilder builder(name);
  const int64_t d = net.directions, g = net.gates * kHidden;
  builder.X({kSteps, kInputs}).W("w", {d, g, kInputs}).W("r", {d, g, kHidden});
  Strings in = {"x", "w", "r", "", "", "", "", ""};
  if (!net.layout) {
    builder.Node("Transpose", {"x"}, "t", {{"perm", Ints{1, 0, 2}}});
    in[0] = "t";
  }
  if (net.bias) {
    builder.W("b", {d, 2 * g});
    in[3] = "b";
  }
  const auto state = [&](const std::string& input, size_t at) {
    builder.Input(input, {d, kHidden});
    in[at] = input;
    if (net.layout) return;
    in[at] = input + "t";
    builder.Node("Transpose", {input}, in[at], {{"perm", Ints{1, 0, 2}}});
  };
  if (net.states) state("h0", 5);
  if (net.states && net.op == "LSTM") state("c0", 6);
  if (net.peepholes) {
    builder.W("p", {d, 3 * kHidden});
    in[7] = "p";
  }
  if (net.lengths) {
    builder.IntInput("n", {}, {1, 3, 2});
    in[4] = "n";
  }
  while (in.back().empty()) in.pop_back();
  if (d == 2) attributes["direction"] = std::string("bidirectional");
  if (net.layout) attributes["layout"] = int64_t{1};
  attributes["hidden_size"] = kHidden;
  const bool cell = net.op == "LSTM";
  const std::string last = cell ? "c" : "h";
  builder.Node(net.op, in, cell ? Strings{"s", "h", "c"} : Strings{"s", "h"}, std::move(attributes));
  if (!sequence) {
    builder.Node("Mul", {"h", last}, "y");
  } else if (net.layout) {  // [B, T, D, H] and [B, D, H]
    builder.I("axis", {1}).Node("Unsqueeze", {last, "axis"}, "u").Node("Mul", {"s", "u"}, "y");
  } else {
    builder.Node("Mul", {"s", last}, "y");
  }
  cases.push_back(builder.Done());
}

void AddRecurrent(std::vector<OpCase>& cases) {
  const std::vector<Net> nets = {{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}};
  for (const Net& net : nets) {
    AddNet(cases, net.op, net, {});
    AddNet(cases, net.op + "Reverse", {net.op, net.gates, 1, false}, {{"direction", std::string("reverse")}});
    AddNet(cases, net.op + "Bidirectional", {net.op, net.gates, 2, true, true}, {});
    AddNet(cases, net.op + "BatchFirst", {net.op, net.gates, 2, true, true, false, true}, {});
    AddNet(cases, net.op + "Lengths", {net.op, net.gates, 2, true, true, false, false, true}, {});
    AddNet(cases, net.op + "LengthsFromZero", {net.op, net.gates, 1, true, false, false, true, true}, {});
    AddNet(cases, net.op + "LastState", {net.op, net.gates, 1, true, true}, {}, false);
  }
  const Attributes after = {{"linear_before_reset", int64_t{1}}};
  AddNet(cases, "GRULinearBeforeReset", {"GRU", 3, 1, true, true}, after);
  AddNet(cases, "GRULinearBeforeResetFromZero", {"GRU", 3, 2, true}, after);
  AddNet(cases, "GRULinearBeforeResetNoBias", {"GRU", 3, 1, false}, after);
  AddNet(cases, "LSTMPeepholes", {"LSTM", 4, 1, true, true, true}, {});
  AddNet(cases, "LSTMPeepholesFromZero", {"LSTM", 4, 2, true, false, true}, {});
  AddNet(cases, "LSTMInputForget", {"LSTM", 4, 1, true, true}, {{"input_forget", int64_t{1}}});
  AddNet(cases, "RNNActivations", {"RNN", 1, 2},
         {{"activations", Strings{"Affine", "ScaledTanh"}},
          {"activation_alpha", std::vector<float>{0.7f, 1.5f}},
          {"activation_beta", std::vector<float>{0.1f, 0.6f}}});
  AddNet(cases, "LSTMActivations", {"LSTM", 4},
         {{"activations", Strings{"Sigmoid", "Softsign", "Elu"}}, {"activation_alpha", std::vector<float>{0.5f}}});
}

// Samples of which 3, 1 and 2 keys are valid, and a mask that stops short of the last.
OpCase AttentionValidKeys() {
  OpCaseBuilder builder("AttentionValidKeys");
  builder.Opset(25).X({2, 2, 3}).Input("k", {2, 4, 3}).Input("v", {2, 4, 2}).W("m", {2, 3});
  builder.IntInput("valid", {}, {3, 1, 2});
  builder.Node("Attention", {"x", "k", "v", "m", "", "", "valid"}, "y",
               {{"is_causal", int64_t{1}}, {"left_window_size", int64_t{1}}});
  return builder.Done();
}

void AddAttention(std::vector<OpCase>& cases) {
  cases.push_back(AttentionValidKeys());
  const auto attention = [&](const std::string& name, bool flat, int64_t kv_heads, Attributes attributes,
                             bool mask = false, bool past = false) {
    OpCaseBuilder builder("Attention" + name);
    builder.Opset(25);
    constexpr int64_t kHeads = 4, kQueries = 3, kKeys = 3, kSize = 2;
    if (flat) {
      builder.X({kQueries, kHeads * kSize}).Input("k", {kKeys, kv_heads * kSize}).Input("v", {kKeys, kv_heads * 3});
      attributes["q_num_heads"] = kHeads;
      attributes["kv_num_heads"] = kv_heads;
    } else {
      builder.X({kHeads, kQueries, kSize}).Input("k", {kv_heads, kKeys, kSize}).Input("v", {kv_heads, kKeys, 3});
    }
    Strings in = {"x", "k", "v", "", "", ""};
    if (mask) builder.W(in[3] = "m", {kQueries, kKeys + (past ? 1 : 0)});
    if (past) builder.Input(in[4] = "pk", {kv_heads, 1, kSize}).Input(in[5] = "pv", {kv_heads, 1, 3});
    while (in.back().empty()) in.pop_back();
    cases.push_back(builder.Node("Attention", in, "y", std::move(attributes)).Done());
  };
  attention("", false, 4, {});
  attention("Flat", true, 4, {{"scale", 0.3f}});
  attention("Grouped", false, 2, {{"softcap", 0.8f}}, true);
  attention("FlatGroupedCausal", true, 2, {{"is_causal", int64_t{1}}}, true);
  attention("Window", false, 4, {{"left_window_size", int64_t{1}}, {"right_window_size", int64_t{0}}});
  attention("Past", false, 1, {{"is_causal", int64_t{1}}}, true, true);

  const auto rotary = [&](const std::string& name, bool flat, Attributes attributes) {
    OpCaseBuilder builder("RotaryEmbedding" + name);
    builder.Opset(23).X(flat ? Shape{3, 8} : Shape{2, 3, 4});
    builder.W("cos", {5, attributes.contains("rotary_embedding_dim") ? 1 : 2});
    builder.W("sin", {5, attributes.contains("rotary_embedding_dim") ? 1 : 2});
    builder.IntInput("ids", {3}, {0, 1, 2, 4, 3, 3, 0, 0, 1});
    if (flat) attributes["num_heads"] = int64_t{2};
    cases.push_back(builder.Node("RotaryEmbedding", {"x", "cos", "sin", "ids"}, "y", std::move(attributes)).Done());
  };
  rotary("", false, {});
  rotary("Flat", true, {});
  rotary("Interleaved", false, {{"interleaved", int64_t{1}}});
  rotary("Partial", true, {{"rotary_embedding_dim", int64_t{2}}});
}

}  // namespace

void AddRecurrentCases(std::vector<OpCase>& cases) {
  AddRecurrent(cases);
  AddAttention(cases);
}

}  // namespace jacserve::worker
