// Arithmetic of seed_full's matrix products: its whole Jacobian's floating-point operations, from the network's shapes.
#pragma once

namespace jacserve::bench {

// Forward once per sample, then per row and term: pull back through every layer behind the first, and the weights'
// rows.
constexpr double kConv1 = 2.0 * 32 * 225 * 128, kConv2 = 2.0 * 64 * 64 * 512, kConv3 = 2.0 * 64 * 64 * 576;
constexpr double kDense0 = 2.0 * 4096 * 256, kDense1 = 2.0 * 256 * 64;
constexpr double kForward = kConv1 + kConv2 + kConv3 + kDense0 + kDense1;
constexpr double kGemmFlopsPerTerm = kConv1 + 2 * kConv2 + 2 * kConv3 + kDense0 + kDense1;
constexpr double kSeedFlops = 112 * kForward + 3136 * 2 * kGemmFlopsPerTerm;

}  // namespace jacserve::bench
