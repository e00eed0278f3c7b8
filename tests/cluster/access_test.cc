// Doors of a real coordinator that asks for tokens.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/channel.h"
#include "common/digest.h"
#include "common/grpc_status.h"
#include "jacserve/v1/worker_service.grpc.pb.h"
#include "tests/cluster/cluster.h"

namespace jacserve::cluster {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

std::string DigestOf(const std::string& bytes) { return Sha256Of(std::as_bytes(std::span(bytes))); }

// A server for alice and bob, who may do anything a client may, and one token for each role; a token is its name.
class AccessTest : public testing::Test {
 protected:
  static server::CoordinatorOptions Options() {
    server::CoordinatorOptions options = Cluster::FastOptions();
    options.access.tokens = options.state_directory.string() + "-tokens";
    options.access.audit_log = options.state_directory.string() + "-audit";
    Write(options.access.tokens,
          {"alice compute,upload", "bob upload,compute", "reader compute", "writer upload", "box worker"});
    return options;
  }

  static void Write(const std::filesystem::path& path, const std::vector<std::string>& lines) {
    std::ofstream file(path);
    file << "# name roles sha256\n\n";
    for (const std::string& line : lines) {
      file << line << " " << HexOf(DigestOf(line.substr(0, line.find(' ')))) << "  # a token\n";
    }
  }

  absl::Status Describe(const std::string& bytes) {
    grpc::ClientContext context;
    v1::DescribeModelRequest request;
    request.set_graph_sha256(DigestOf(bytes));
    v1::ModelDescription description;
    return FromGrpc(cluster_.client().DescribeModel(&context, request, &description));
  }

  absl::Status Ask() {
    grpc::ClientContext context;
    v1::GetServerInfoResponse response;
    return FromGrpc(cluster_.client().GetServerInfo(&context, {}, &response));
  }

  absl::Status ListWorkers() {
    grpc::ClientContext context;
    v1::ListWorkersResponse response;
    return FromGrpc(cluster_.client().ListWorkers(&context, {}, &response));
  }

  absl::Status FindMissing() {
    grpc::ClientContext context;
    v1::FindMissingResponse response;
    return FromGrpc(cluster_.client().FindMissing(&context, {}, &response));
  }

  absl::Status Fetch(const std::string& token, const std::string& bytes) {
    const auto registry = v1::WorkerRegistry::NewStub(*OpenChannel(cluster_.address(), {.token = token}));
    grpc::ClientContext context;
    v1::FetchBlobRequest request;
    request.set_sha256(DigestOf(bytes));
    const auto reader = registry->FetchBlob(&context, request);
    v1::FetchBlobResponse piece;
    while (reader->Read(&piece)) continue;
    return FromGrpc(reader->Finish());
  }

  absl::Status Join(const std::string& token) {
    const auto registry = v1::WorkerRegistry::NewStub(*OpenChannel(cluster_.address(), {.token = token}));
    grpc::ClientContext context;
    v1::RegisterRequest request;
    request.set_worker_id("w");
    request.set_address("127.0.0.1:1");
    request.set_version(JACSERVE_VERSION);
    v1::RegisterResponse response;
    return FromGrpc(registry->Register(&context, request, &response));
  }

  ~AccessTest() override {
    std::filesystem::remove(options_.access.tokens);
    std::filesystem::remove(options_.access.audit_log);
  }

  const server::CoordinatorOptions options_ = Options();
  Cluster cluster_{options_, "alice"};
};

TEST_F(AccessTest, EachRoleOpensItsOwnDoors) {
  struct Case {
    const char* token;
    Code upload, compute, worker;
  };
  const Case cases[] = {
      {"", Code::kUnauthenticated, Code::kUnauthenticated, Code::kUnauthenticated},
      {"guessed", Code::kUnauthenticated, Code::kUnauthenticated, Code::kUnauthenticated},
      {"reader", Code::kPermissionDenied, Code::kOk, Code::kPermissionDenied},
      {"writer", Code::kOk, Code::kPermissionDenied, Code::kPermissionDenied},
      {"box", Code::kPermissionDenied, Code::kPermissionDenied, Code::kOk},
  };
  for (const Case& c : cases) {
    cluster_.ActAs(c.token);
    EXPECT_EQ(cluster_.Upload("a graph").code(), c.upload) << c.token;
    EXPECT_EQ(FindMissing().code(), c.upload) << c.token;
    EXPECT_EQ(Ask().code(), c.compute) << c.token;
    EXPECT_EQ(ListWorkers().code(), c.compute) << c.token;
    // Let in, it is told that the graph is not there.
    const Code expected = c.compute == Code::kOk ? Code::kNotFound : c.compute;
    EXPECT_EQ(Describe("a graph").code(), expected) << c.token;
    EXPECT_EQ(cluster_.Compute(cluster_.Request()).status.code(), expected) << c.token;
    EXPECT_EQ(Join(c.token).code(), c.worker) << c.token;
    EXPECT_EQ(Fetch(c.token, "nothing").code(), c.worker == Code::kOk ? Code::kNotFound : c.worker) << c.token;
  }
}

TEST_F(AccessTest, RefusalsSayWhatIsMissing) {
  cluster_.ActAs("");
  EXPECT_THAT(std::string(Ask().message()), HasSubstr("asks for a token, and none was given"));
  cluster_.ActAs("writer");
  EXPECT_THAT(std::string(Ask().message()), HasSubstr("the token of writer lacks the role 'compute'"));
}

TEST_F(AccessTest, ADigestAloneGivesNobodyAnothersTensors) {
  const std::string tensor(3'000'000, 't');
  ASSERT_TRUE(cluster_.Upload(tensor).ok());
  ASSERT_TRUE(cluster_.Holds(tensor));
  v1::ComputeJacobianRequest request = cluster_.Request();
  v1::NamedTensor& x = *request.mutable_spec()->add_inputs();
  x.set_name("x");
  x.mutable_tensor()->set_dtype(v1::DATA_TYPE_BOOL);
  x.mutable_tensor()->add_shape(static_cast<int64_t>(tensor.size()));
  x.mutable_tensor()->set_sha256(DigestOf(tensor));

  cluster_.ActAs("bob");
  EXPECT_FALSE(cluster_.Holds(tensor)) << "not even that it is there is told";
  EXPECT_EQ(Describe(tensor).code(), Code::kNotFound);
  EXPECT_EQ(cluster_.Compute(request).status.code(), Code::kNotFound);
  EXPECT_EQ(cluster_.Upload("other bytes", 11, DigestOf(tensor)).code(), Code::kInvalidArgument);
  EXPECT_EQ(cluster_.Upload("", 3'000'000, DigestOf(tensor)).code(), Code::kInvalidArgument);
  EXPECT_EQ(cluster_.Upload(tensor + tensor, 3'000'000, DigestOf(tensor)).code(), Code::kInvalidArgument);
  EXPECT_FALSE(cluster_.Holds(tensor));
  EXPECT_TRUE(cluster_.Upload(tensor).ok()) << "he has shown them";
  EXPECT_TRUE(cluster_.Holds(tensor));
}

TEST_F(AccessTest, TokensAreReadAgainWhenTheFileChanges) {
  Write(options_.access.tokens, {"carol compute"});
  cluster_.ActAs("carol");
  EXPECT_TRUE(cluster_.WaitFor([&] { return Ask().ok(); }));
  cluster_.ActAs("alice");
  EXPECT_EQ(Ask().code(), Code::kUnauthenticated);
  Write(options_.access.tokens, {"dave nonsense"});
  cluster_.ActAs("carol");
  std::this_thread::sleep_for(std::chrono::milliseconds(1'200));
  EXPECT_TRUE(Ask().ok()) << "a file that is wrong changes nothing";
}

// The bytes of a reflection answer to "list services", or nothing.
std::string Reflection(const std::string& address, const std::string& token) {
  const auto channel = *OpenChannel(address, {.token = token});
  grpc::ClientContext context;
  const grpc::internal::RpcMethod reflect("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                          grpc::internal::RpcMethod::BIDI_STREAMING);
  const std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(channel.get(), reflect,
                                                                                            &context));
  const grpc::Slice list_services("\x3a\x01*");
  grpc::ByteBuffer response;
  if (!stream->Write(grpc::ByteBuffer(&list_services, 1)) || !stream->Read(&response)) return "";
  grpc::Slice bytes;
  return response.DumpToSingleSlice(&bytes).ok() ? std::string(bytes.begin(), bytes.end()) : "";
}

TEST_F(AccessTest, NobodyIsToldWhichServicesThereAre) {
  for (const char* token : {"", "guessed", "alice"}) EXPECT_EQ(Reflection(cluster_.address(), token), "") << token;
  const Cluster open;
  EXPECT_THAT(Reflection(open.address(), ""), HasSubstr("jacserve.v1.JacobianService"));
}

TEST_F(AccessTest, CallsAreRecordedWithWhoWhatHowMuchAndOutcome) {
  cluster_.ActAs("bob");
  ASSERT_TRUE(cluster_.Upload("12345").ok());
  ASSERT_EQ(Describe("never sent").code(), Code::kNotFound);
  cluster_.ActAs("guessed");
  ASSERT_EQ(cluster_.Upload("x").code(), Code::kUnauthenticated);
  ASSERT_TRUE(Join("box").ok());
  std::vector<nlohmann::json> lines;
  std::ifstream file(options_.access.audit_log);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 5u);  // alice's graph came first
  const auto expect = [&](int i, const char* call, const char* caller, const std::string& sha256, int bytes,
                          const char* outcome) {
    EXPECT_EQ(lines[i]["call"], call);
    EXPECT_EQ(lines[i]["caller"], caller);
    EXPECT_EQ(lines[i].value("sha256", ""), sha256);
    EXPECT_EQ(lines[i]["bytes"], bytes);
    EXPECT_EQ(lines[i]["outcome"], outcome);
    EXPECT_THAT(lines[i]["peer"].get<std::string>(), HasSubstr("127.0.0.1"));
  };
  expect(1, "Upload", "bob", HexOf(DigestOf("12345")), 5, "OK");
  expect(2, "DescribeModel", "bob", HexOf(DigestOf("never sent")), 0, "NOT_FOUND");
  expect(3, "Upload", "", "", 0, "UNAUTHENTICATED");
  expect(4, "Register", "box", "", 0, "OK");
  EXPECT_EQ(lines[4]["worker"], "w");
}

}  // namespace
}  // namespace jacserve::cluster
