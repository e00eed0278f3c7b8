// Metrics as a scraper sees them.
#include "common/metrics.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace jacserve {
namespace {

// The body and headers of GET /metrics.
std::string Scrape(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
    char buffer[4096];
    for (ssize_t size = 0; (size = read(fd, buffer, sizeof(buffer))) > 0;) answer.append(buffer, size);
  }
  close(fd);
  return answer;
}

TEST(MetricsTest, ServesWhatWasCounted) {
  absl::StatusOr<std::unique_ptr<MetricsServer>> server = MetricsServer::Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status();
  prometheus::Counter& rows = MetricCounter("rows_total", "Rows that were computed.");
  rows.Increment(40);
  MetricCounter("rows_total", "Rows that were computed.").Increment(2);  // the same counter
  MetricGauge("memory_budget_bytes", "Bytes that may be used.").Set(512);
  MetricHistogram("shard_seconds", "Time that shards took.", DurationBuckets()).Observe(0.2);
  EXPECT_TRUE(FinishRpc("Upload", absl::OkStatus()).ok());
  EXPECT_EQ(FinishRpc("Upload", absl::NotFoundError("gone")).error_code(), grpc::StatusCode::NOT_FOUND);

  const std::string text = Scrape((*server)->port());
  EXPECT_NE(text.find("\njacserve_rows_total 42"), std::string::npos) << text;
  EXPECT_NE(text.find("\njacserve_memory_budget_bytes 512"), std::string::npos) << text;
  EXPECT_NE(text.find("jacserve_shard_seconds_count 1"), std::string::npos) << text;
  EXPECT_NE(text.find("jacserve_rpcs_total{code=\"OK\",method=\"Upload\"} 1"), std::string::npos) << text;
  EXPECT_NE(text.find("jacserve_rpcs_total{code=\"NOT_FOUND\",method=\"Upload\"} 1"), std::string::npos) << text;
}

TEST(MetricsTest, AddressInUseIsUnavailable) {
  absl::StatusOr<std::unique_ptr<MetricsServer>> first = MetricsServer::Start("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const std::string address = "127.0.0.1:" + std::to_string((*first)->port());
  EXPECT_EQ(MetricsServer::Start(address).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(MetricsServer::Start("not an address").status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace jacserve
