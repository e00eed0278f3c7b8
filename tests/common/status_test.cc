// Status macros, and the two kinds of status to each other.
#include "common/status.h"

#include <gtest/gtest.h>

#include <memory>

#include "common/grpc_status.h"

namespace jacserve {
namespace {

absl::StatusOr<std::unique_ptr<int>> Half(int number) {
  if (number % 2 != 0) return absl::InvalidArgumentError("odd");
  return std::make_unique<int>(number / 2);
}

absl::StatusOr<int> Quarter(int number) {
  ASSIGN_OR_RETURN(std::unique_ptr<int> half, Half(number));
  RETURN_IF_ERROR(Half(*half).status());
  ASSIGN_OR_RETURN(half, Half(*half));
  return *half;
}

TEST(StatusTest, MacrosReturnTheFirstError) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(5).status().message(), "odd");
  EXPECT_EQ(Quarter(6).status().message(), "odd");
}

TEST(StatusTest, GrpcStatusKeepsCodeAndWords) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "words");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
  absl::Status figure = absl::ResourceExhaustedError("words");
  figure.SetPayload("jacserve.figure", absl::Cord("123"));
  EXPECT_EQ(FromGrpc(ToGrpc(figure)), figure);
  EXPECT_EQ(FromGrpc(grpc::Status(grpc::StatusCode::ABORTED, "words", "other details")), absl::AbortedError("words"));
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_EQ(ToGrpc(absl::NotFoundError("x")).error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace jacserve
