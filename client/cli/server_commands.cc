// `jacserve describe`, `workers`, `info` and `version`: one question to the server, one table.
#include "absl/strings/match.h"
#include "client/cli/commands.h"
#include "client/cli/report.h"
#include "client/cli/request_files.h"
#include "client/cli/session.h"
#include "client/cli/table.h"
#include "client/cpp/text.h"
#include "common/digest.h"
#include "common/size_text.h"
#include "common/status.h"

namespace jacserve::client {
namespace {

using nlohmann::ordered_json;

std::string TypeText(v1::DataType dtype) {
  if (dtype < v1::DATA_TYPE_FLOAT32 || dtype > v1::DATA_TYPE_BOOL) return "(not computed with)";
  return std::string(NameOf(static_cast<DType>(dtype)));
}

// "[N, 3, 60, 60]": symbols where the size is not fixed.
std::string ShapeTextOf(const v1::TensorInfo& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.shape_size(); ++i) {
    const bool symbolic = tensor.shape(i) < 0;
    const std::string symbol = i < tensor.symbols_size() && !tensor.symbols(i).empty() ? tensor.symbols(i) : "?";
    text += Cat(i == 0 ? "" : ", ", symbolic ? symbol : Cat(tensor.shape(i)));
  }
  return text + "]";
}

std::string BytesText(const v1::TensorInfo& tensor) {
  if (tensor.dtype() < v1::DATA_TYPE_FLOAT32 || tensor.dtype() > v1::DATA_TYPE_BOOL) return "";
  const absl::StatusOr<int64_t> bytes =
      ByteCount(Shape(tensor.shape().begin(), tensor.shape().end()), static_cast<DType>(tensor.dtype()));
  return bytes.ok() ? SizeText(*bytes) : "";
}

template <class Tensors>
void AddTensors(const Tensors& tensors, const char* kind, Table& table, ordered_json& json) {
  for (const v1::TensorInfo& tensor : tensors) {
    table.Add({kind, tensor.name(), TypeText(tensor.dtype()), ShapeTextOf(tensor), BytesText(tensor)});
    ordered_json shape = ordered_json::array();
    for (int64_t axis : tensor.shape()) shape.push_back(axis);
    json.push_back({{"name", tensor.name()}, {"dtype", TypeText(tensor.dtype())}, {"shape", std::move(shape)}});
  }
}

void DescribeTo(const v1::ModelDescription& model, CommandOutput& output) {
  ordered_json& json = output.json;
  json = {{"inputs", ordered_json::array()},
          {"parameters", ordered_json::array()},
          {"outputs", ordered_json::array()},
          {"operators", ordered_json::array()},
          {"unsupported", ordered_json::array()}};
  Table tensors, operators;
  tensors.Add({"", "name", "type", "shape", "size"});
  AddTensors(model.inputs(), "input", tensors, json["inputs"]);
  AddTensors(model.parameters(), "parameter", tensors, json["parameters"]);
  AddTensors(model.outputs(), "output", tensors, json["outputs"]);
  operators.Add({"operator", "nodes", ""});
  std::string unsupported;
  for (const v1::OperatorCount& op : model.operators()) {
    const std::string name = op.domain().empty() ? op.op_type() : Cat(op.domain(), ".", op.op_type());
    operators.Add({name, Cat(op.count()), op.supported() ? "" : "not supported"});
    json["operators"].push_back({{"name", name}, {"count", op.count()}, {"supported", op.supported()}});
    if (op.supported()) continue;
    json["unsupported"].push_back(name);
    unsupported += Cat(unsupported.empty() ? "" : ", ", name);
  }
  json["samples_independent"] = model.samples_independent();
  json["coupling"] = model.coupling();
  json["ir_version"] = model.ir_version();
  json["opset_version"] = model.opset_version();
  json["producer"] = model.producer();
  Table facts;
  facts.Add({"producer", Cat(model.producer(), ", opset ", model.opset_version(), ", IR ", model.ir_version())});
  const bool decided = !absl::StartsWith(model.coupling(), "not decided");
  facts.Add({"samples", model.samples_independent() ? std::string("independent of each other")
                                                    : Cat(decided ? "mixed: " : "", model.coupling())});
  facts.Add({"supported", unsupported.empty() ? std::string("yes") : Cat("no: ", unsupported)});
  output.text = Cat(tensors.Text(), "\n", operators.Text(), "\n", facts.Text());
}

std::string StateText(v1::WorkerState state) {
  switch (state) {
    case v1::WORKER_STATE_JOINING:
      return "joining";
    case v1::WORKER_STATE_READY:
      return "ready";
    case v1::WORKER_STATE_DRAINING:
      return "draining";
    case v1::WORKER_STATE_GONE:
      return "gone";
    case v1::WORKER_STATE_LOST:
      return "lost";
    default:
      return "unknown";
  }
}

}  // namespace

absl::Status RunDescribe(const Options& options, const std::stop_source& stop, CommandOutput& output) {
  ASSIGN_OR_RETURN(const FileBytes graph, ReadFileBytes(options.jacobian.graph, kMaxGraphBytes));
  const Blob blob{Sha256Of(graph.bytes), "graph", graph.bytes, graph.keep_alive};
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Open(options.server, stop));
  const absl::StatusOr<UploadReport> uploaded = session->client().UploadMissing(std::span<const Blob>(&blob, 1));
  if (!uploaded.ok()) return session->Explain(uploaded.status());
  const absl::StatusOr<v1::ModelDescription> model = session->client().Describe(blob.sha256);
  if (!model.ok()) return session->Explain(model.status());
  DescribeTo(*model, output);
  return absl::OkStatus();
}

absl::Status RunWorkers(const Options& options, const std::stop_source& stop, CommandOutput& output) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Open(options.server, stop));
  const absl::StatusOr<v1::ListWorkersResponse> response = session->client().ListWorkers();
  if (!response.ok()) return session->Explain(response.status());
  Table table;
  table.Add({"worker", "state", "backend", "device", "threads", "budget", "peak memory", "rows done"});
  output.json["workers"] = ordered_json::array();
  for (const v1::WorkerInfo& worker : response->workers()) {
    const std::string state = Cat(StateText(worker.state()), worker.busy() ? ", busy" : "");
    table.Add({worker.worker_id(), state, worker.backend(), worker.device(), Cat(worker.threads()),
               SizeText(worker.memory_budget_bytes()), SizeText(worker.peak_rss_bytes()), Cat(worker.rows_done())});
    output.json["workers"].push_back({{"worker_id", worker.worker_id()},
                                      {"state", StateText(worker.state())},
                                      {"busy", worker.busy()},
                                      {"backend", worker.backend()},
                                      {"device", worker.device()},
                                      {"threads", worker.threads()},
                                      {"memory_budget_bytes", worker.memory_budget_bytes()},
                                      {"peak_rss_bytes", worker.peak_rss_bytes()},
                                      {"rows_done", worker.rows_done()}});
    if (!worker.has_gpu()) continue;
    output.json["workers"].back()["gpu"] = {{"uuid", worker.gpu().uuid()},
                                            {"compute_capability", worker.gpu().compute_capability()},
                                            {"driver", worker.gpu().driver()},
                                            {"memory_bytes", worker.gpu().memory_bytes()}};
  }
  output.text = table.Text();
  return absl::OkStatus();
}

absl::Status RunInfo(const Options& options, const std::stop_source& stop, CommandOutput& output) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Open(options.server, stop));
  const absl::StatusOr<v1::GetServerInfoResponse> info = session->client().GetServerInfo();
  if (!info.ok()) return session->Explain(info.status());
  Table table;
  table.Add({"version", info->version()});
  table.Add({"up for", DurationText(static_cast<double>(info->uptime_seconds()))});
  table.Add({"uploads held", Cat(SizeText(info->store_bytes()), " of ", SizeText(info->store_quota_bytes()))});
  table.Add({"jobs", Cat(info->jobs_running(), " running, ", info->jobs_queued(), " queued")});
  table.Add({"workers ready", Cat(info->workers_ready())});
  table.Add({"draining", info->draining() ? "yes" : "no"});
  output.text = table.Text();
  output.json = {{"version", info->version()},
                 {"uptime_seconds", info->uptime_seconds()},
                 {"store_bytes", info->store_bytes()},
                 {"store_quota_bytes", info->store_quota_bytes()},
                 {"jobs_queued", info->jobs_queued()},
                 {"jobs_running", info->jobs_running()},
                 {"workers_ready", info->workers_ready()},
                 {"draining", info->draining()}};
  return absl::OkStatus();
}

void RunVersion(CommandOutput& output) {
  output.text = "jacserve " JACSERVE_VERSION "\n";
  output.json = {{"version", JACSERVE_VERSION}};
}

}  // namespace jacserve::client
