// Compares the engine's rows with a case's expected.npz while they come, as the client does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/cpp/verify/verifier.h"
#include "worker/engine/engine.h"

namespace jacserve::bench {

class VerifyingConsumer : public worker::RowConsumer {
 public:
  // `rows` of the layout's will come; of the folder `expected.npz` is read. Errors: client::ExpectedFile's.
  static absl::StatusOr<std::unique_ptr<VerifyingConsumer>> Make(const worker::JacobianLayout& layout, RowRange rows,
                                                                 const std::string& folder);

  absl::Status OnValue(std::span<const std::byte> value) { return verifier_.OnValue(0, value); }
  absl::Status OnSlab(const worker::Slab& slab) override;
  absl::Status OnRowsDone(RowRange) override { return absl::OkStatus(); }

  std::vector<client::Verdict> Verdicts() const { return verifier_.Verdicts(); }
  bool AllRight() const { return client::AllRight(verifier_.Verdicts()); }

 private:
  VerifyingConsumer(client::ExpectedFile expected, const worker::JacobianLayout& layout);

  const worker::JacobianLayout& layout_;
  client::Verifier verifier_;
};

}  // namespace jacserve::bench
