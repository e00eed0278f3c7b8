// The program `jacserve` as a user runs it, against a scripted coordinator: output and exit codes.
#include <chrono>
#include <cstring>
#include <thread>

#include "common/chunk_codec.h"
#include "tests/client/cli/program_rig.h"

namespace jacserve::client {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

TEST_F(ProgramTest, ComputesIntoAFolderAndReports) {
  const ScriptedService service;
  const Ended ended = Run(Jacobian(service.target(), {"--out", folder_ + "/out", "--json"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  const json report = ended.Json();
  EXPECT_EQ(report["rows"], 6);
  EXPECT_EQ(report["columns"], 2103);
  EXPECT_EQ(report["bytes"], 6 * TheLayout().row_bytes());
  EXPECT_EQ(report["backend"], "reference");
  EXPECT_EQ(report["precision"], "fp32");
  EXPECT_EQ(report["workers"], 1);
  EXPECT_GT(report["seconds"], 0.0);
  EXPECT_TRUE(report["phases"].contains("upload"));
  EXPECT_EQ(report["worker_phases"]["rows"], 0.5);
  ASSERT_THAT(report["processes"], SizeIs(2));
  EXPECT_EQ(report["processes"][0]["role"], "worker");
  EXPECT_EQ(report["processes"][1]["role"], "client");
  EXPECT_GT(report["processes"][1]["peak_rss_bytes"], 0);
  EXPECT_TRUE(report["verification"].is_null());
  const absl::StatusOr<Array> kernel = ReadNpy(folder_ + "/out/kernel.npy");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(BytesOf(*kernel), BlockText(TheLayout(), 0));
}

TEST_F(ProgramTest, PrintsATableForPeople) {
  const ScriptedService service;
  const Ended ended = Run(Jacobian(service.target(), {"--verify", Expected(0)}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("6 rows x 2103 columns"));
  EXPECT_THAT(ended.out, HasSubstr("worst error"));
  EXPECT_THAT(ended.out, HasSubstr("discarded"));
  EXPECT_EQ(ended.err, "") << "no progress bar where there is no terminal";
}

TEST_F(ProgramTest, FailsWhenAFigureIsOff) {
  const ScriptedService service;
  const Ended right = Run(Jacobian(service.target(), {"--verify", Expected(0), "--json"}));
  EXPECT_EQ(right.code, 0) << right.err;
  EXPECT_EQ(right.Json()["verification"]["passed"], true);
  const Ended wrong = Run(Jacobian(service.target(), {"--verify", Expected(0.01), "--json"}));
  EXPECT_EQ(wrong.code, 4);
  EXPECT_EQ(wrong.Json()["verification"]["passed"], false);
  EXPECT_EQ(wrong.Json()["error"]["code"], "VERIFICATION_FAILED");
  EXPECT_THAT(wrong.err, HasSubstr("'bias'"));
}

TEST_F(ProgramTest, RowsAskedForAreTheLeadingAxis) {
  const ScriptedService service;
  const Ended ended =
      Run(Jacobian(service.target(), {"--rows", "2:4", "--out", folder_ + "/out", "--verify", Expected(0)}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const absl::StatusOr<Array> bias = ReadNpy(folder_ + "/out/bias.npy");
  ASSERT_TRUE(bias.ok());
  EXPECT_EQ(bias->shape, (Shape{2, 3}));
  EXPECT_EQ(BytesOf(*bias), NumbersText(DType::kFloat32, 1, 6, 6));
  ASSERT_EQ(service.requests().size(), 1u);
  EXPECT_EQ(RowsOf(service.requests()[0], {}), (std::vector<RowRange>{{2, 2}}));
}

TEST_F(ProgramTest, AFinishedResultIsNeitherRepeatedNorReplacedUnasked) {
  const ScriptedService service;
  const std::vector<std::string> arguments = Jacobian(service.target(), {"--out", folder_ + "/out", "--json"});
  ASSERT_EQ(Run(arguments).code, 0);
  const Ended again = Run(arguments);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.Json()["already_complete"], true);
  EXPECT_EQ(again.Json()["rows"], 6);
  EXPECT_THAT(service.requests(), SizeIs(1));

  std::vector<std::string> other = arguments;
  other.insert(other.end(), {"--rows", "0:2"});
  const Ended refused = Run(other);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--overwrite"));
  EXPECT_THAT(service.requests(), SizeIs(1));
  other.push_back("--overwrite");
  const Ended replaced = Run(other);
  EXPECT_EQ(replaced.code, 0) << replaced.err;
  EXPECT_EQ(ReadNpy(folder_ + "/out/bias.npy")->shape, (Shape{2, 3}));
}

TEST_F(ProgramTest, PassesTheServersNoticesOn) {
  Layout layout = TestLayout();
  layout.notices = {"the graph lacks 1 of the 3 weights"};
  const ScriptedService service(layout);
  const Ended ended = Run(Jacobian(service.target(), {"--json"}));
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "jacserve: note: the graph lacks 1 of the 3 weights\n");
  EXPECT_EQ(ended.Json()["notices"], json(layout.notices));
}

TEST_F(ProgramTest, TellsOfRowsThatAreNotFinite) {
  const auto with_nan = [](grpc::ServerContext&, const v1::ComputeJacobianRequest&, EventWriter& writer) {
    writer.Write(HeaderEvent(TheLayout()));
    writer.Write(ValueEvent(TheLayout()));
    v1::JacobianEvent event = ChunkEvent(TheLayout(), 1, {4, 1}, 0, 12);
    std::memset(event.mutable_chunk()->mutable_data()->data(), 0xff, 4);
    event.mutable_chunk()->set_checksum(Checksum(std::as_bytes(std::span<const char>(event.chunk().data()))));
    writer.Write(event);
    WriteRows(writer, TheLayout(), {0, 6});
    writer.Write(SummaryEvent(6));
    return grpc::Status::OK;
  };
  const ScriptedService service(TheLayout(), {with_nan});
  const Ended ended = Run(Jacobian(service.target(), {"--json"}));
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "jacserve: note: 1 of 6 rows hold NaN or infinity; the first: row 4, block 'bias'\n");
  EXPECT_EQ(ended.Json()["nonfinite_rows"], 1);
  EXPECT_EQ(ended.Json()["first_nonfinite"]["row"], 4);
  EXPECT_EQ(Run(Jacobian(service.target(), {"--json"})).Json()["nonfinite_rows"], 0);
}

TEST_F(ProgramTest, SaysAtOnceThatItWaitsForAServer) {
  const Process process(Program(), {"info", "--server", "127.0.0.1:1"}, folder_);
  const auto start = std::chrono::steady_clock::now();
  while (ReadText(folder_ + "/stderr").empty() && std::chrono::steady_clock::now() - start < std::chrono::seconds(8)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_THAT(ReadText(folder_ + "/stderr"), HasSubstr("waiting up to 10 s for a server at 127.0.0.1:1"));
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait().code, 130);
}

TEST_F(ProgramTest, RowsToTheEndAreCountedByTheServer) {
  const ScriptedService service;
  for (const char* rows : {"--rows=4:", "--rows=-2:"}) {
    const std::string out = Cat(folder_, "/out", rows);
    const Ended ended = Run(Jacobian(service.target(), {rows, "--out", out, "--json"}));
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.Json()["row_begin"], 4);
    const absl::StatusOr<Array> bias = ReadNpy(out + "/bias.npy");
    ASSERT_TRUE(bias.ok());
    EXPECT_EQ(BytesOf(*bias), NumbersText(DType::kFloat32, 1, 12, 6));
  }
  const Ended outside = Run(Jacobian(service.target(), {"--rows", "7:", "--out", folder_ + "/outside"}));
  EXPECT_EQ(outside.code, 2);
  EXPECT_THAT(outside.err, HasSubstr("--rows 7: of a target with 6 rows"));
  EXPECT_FALSE(fs::exists(folder_ + "/outside"));
}

TEST_F(ProgramTest, ContinuesARunThatWasInterrupted) {
  const auto stall = [](grpc::ServerContext& context, const v1::ComputeJacobianRequest&, EventWriter& writer) {
    writer.Write(HeaderEvent(TheLayout()));
    writer.Write(ValueEvent(TheLayout()));
    WriteRows(writer, TheLayout(), {1, 3});
    writer.Write(ChunkEvent(TheLayout(), 1, {4, 1}, 0, 12));
    while (!context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return grpc::Status::CANCELLED;
  };
  const ScriptedService service(TheLayout(), {stall});
  const std::vector<std::string> arguments =
      Jacobian(service.target(), {"--out", folder_ + "/out", "--json", "--verify", Expected(0)});
  const Process first(Program(), arguments, folder_);
  const std::string kernel_part = folder_ + "/out/.part/kernel.npy";
  const std::string bias_part = folder_ + "/out/.part/bias.npy";
  // The piece of row 4 follows the report that rows 1 to 3 are done: when it is in the file, the report has been read.
  const std::string row_4 = NumbersText(DType::kFloat32, 1, 12, 3);
  while (ReadText(bias_part).find(row_4) == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  first.Signal(SIGINT);
  const Ended interrupted = first.Wait();
  EXPECT_EQ(interrupted.code, 130) << interrupted.err;
  EXPECT_EQ(interrupted.Json()["error"]["code"], "CANCELLED");
  EXPECT_FALSE(fs::exists(folder_ + "/out/kernel.npy"));
  EXPECT_TRUE(fs::exists(kernel_part));

  const Ended second = Run(arguments);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.Json()["rows_from_earlier_run"], 3);
  EXPECT_EQ(second.Json()["verification"]["passed"], true) << "rows of the earlier run are verified too";
  EXPECT_EQ(RowsOf(service.requests()[1], {}), (std::vector<RowRange>{{0, 1}, {4, 2}}));
  const absl::StatusOr<Array> kernel = ReadNpy(folder_ + "/out/kernel.npy");
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(BytesOf(*kernel), BlockText(TheLayout(), 0));
  EXPECT_FALSE(fs::exists(kernel_part));
}

TEST_F(ProgramTest, ErrorsHaveWordsAndCodes) {
  const auto answer = [](grpc::StatusCode code) {
    return [=](grpc::ServerContext&, const v1::ComputeJacobianRequest&, EventWriter&) {
      return grpc::Status(code, "as the server says");
    };
  };
  const struct {
    grpc::StatusCode code;
    int exit_code;
    const char* name;
  } cases[] = {
      {grpc::StatusCode::INVALID_ARGUMENT, 2, "INVALID_ARGUMENT"},
      {grpc::StatusCode::UNIMPLEMENTED, 2, "UNIMPLEMENTED"},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, 5, "RESOURCE_EXHAUSTED"},
      {grpc::StatusCode::INTERNAL, 1, "INTERNAL"},
  };
  for (const auto& c : cases) {
    const ScriptedService service(TheLayout(), {answer(c.code)});
    const Ended ended = Run(Jacobian(service.target(), {"--json"}));
    EXPECT_EQ(ended.code, c.exit_code);
    EXPECT_EQ(ended.err, "jacserve: as the server says\n");
    EXPECT_EQ(ended.Json()["error"]["code"], c.name);
    EXPECT_EQ(ended.Json()["error"]["message"], "as the server says");
  }
}

TEST_F(ProgramTest, BadFilesAreNamedBeforeAServerIsNeeded) {
  WriteText(folder_ + "/bad.npy", "nonsense");
  const std::string good = Cat("x=", folder_, "/x.npy");
  const struct {
    std::vector<std::string> arguments;
    const char* message;
  } cases[] = {
      {{"jacobian", folder_ + "/none.onnx", "--input", good}, "none.onnx"},
      {{"jacobian", folder_ + "/g.onnx", "--input", Cat("x=", folder_, "/none.npy")}, "none.npy"},
      {{"jacobian", folder_ + "/g.onnx", "--input", Cat("x=", folder_, "/bad.npy")}, "bad.npy"},
      {{"jacobian", folder_ + "/g.onnx", "--input", folder_ + "/x.npy"}, "NAME=FILE"},
      {{"jacobian", folder_ + "/g.onnx", "--input", good, "--weights", folder_ + "/bad.npy"}, ".safetensors"},
      {{"jacobian", folder_ + "/g.onnx", "--input", good, "--verify", folder_ + "/none.npz"}, "--verify"},
      {{"jacobian", folder_ + "/g.onnx", "--input", good, "--wrt-input", "z"}, "'z'"},
      {{"jacobian", folder_ + "/g.onnx", "--input", good, "--wrt-input", "second.x"}, "there is: x"},
      {{"jacobian", folder_ + "/g.onnx", "--input", good, "--out", folder_ + "/bad.npy"}, "--out"},
      {{"describe", folder_ + "/none.onnx"}, "none.onnx"},
  };
  for (const auto& c : cases) {
    std::vector<std::string> arguments = c.arguments;
    arguments.insert(arguments.end(), {"--server", "127.0.0.1:1", "--json"});
    const Ended ended = Run(arguments);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(c.message));
    EXPECT_TRUE(ended.Json().contains("error")) << ended.out;
  }
}

TEST_F(ProgramTest, ShowsModelWorkersAndServer) {
  const ScriptedService service;
  const Ended model = Run({"describe", folder_ + "/g.onnx", "--server", service.target()});
  EXPECT_EQ(model.code, 0) << model.err;
  EXPECT_THAT(model.out, HasSubstr("[batch, 4]"));
  EXPECT_THAT(model.out, HasSubstr("no: Einsum"));
  EXPECT_THAT(model.out, HasSubstr("mixed: node 'mean'"));
  const Ended model_json = Run({"describe", folder_ + "/g.onnx", "--server", service.target(), "--json"});
  EXPECT_EQ(model_json.Json()["unsupported"], json({"Einsum"}));
  EXPECT_THAT(Run({"workers", "--server", service.target()}).out, HasSubstr("ready"));
  EXPECT_EQ(Run({"info", "--server", service.target(), "--json"}).Json()["version"], "1.2.3");
  EXPECT_EQ(Run({"version"}).out, Run({"--version"}).out);
}

}  // namespace
}  // namespace jacserve::client
