// Registration, beats and farewells, with a coordinator that comes late, forgets and goes.
#include "worker/service/coordinator_link.h"

#include <gtest/gtest.h>

#include <future>
#include <optional>

#include "common/channel.h"
#include "tests/worker/service/scripted_registry.h"

namespace jacserve::worker {
namespace {

using std::chrono::milliseconds;
using State = ScriptedRegistry::State;

class CoordinatorLinkTest : public testing::Test {
 protected:
  void Connect(const std::string& address, milliseconds gone_timeout = milliseconds(60'000)) {
    LinkOptions options;
    options.registration.set_worker_id("w1");
    options.registration.set_address("127.0.0.1:9");
    options.gone_timeout = gone_timeout;
    options.first_backoff = milliseconds(5);
    options.last_backoff = milliseconds(50);
    link_ = std::make_unique<CoordinatorLink>(*OpenChannel(address), options,
                                              [this](const absl::Status& status) { ended_.set_value(status); });
  }

  absl::Status End() {
    std::future<absl::Status> end = ended_.get_future();
    if (end.wait_for(std::chrono::minutes(1)) != std::future_status::ready) return absl::InternalError("no end");
    return end.get();
  }

  std::promise<absl::Status> ended_;
  std::unique_ptr<CoordinatorLink> link_;
};

TEST_F(CoordinatorLinkTest, RegistersAndBeats) {
  ScriptedRegistry registry;
  Connect(registry.address());
  ASSERT_TRUE(registry.WaitUntil([](const State& state) { return state.beats >= 3; }));
  registry.With([](State& state) {
    EXPECT_EQ(state.registrations.size(), 1u);
    EXPECT_EQ(state.registrations[0].worker_id(), "w1");
    EXPECT_GT(state.peak_rss_bytes, 1 << 20);
    EXPECT_EQ(state.draining_beats, 0);
  });
}

TEST_F(CoordinatorLinkTest, RegistersAgainWhenForgotten) {
  ScriptedRegistry registry;
  Connect(registry.address());
  ASSERT_TRUE(registry.WaitUntil([](const State& state) { return state.beats >= 1; }));
  registry.With([](State& state) { state.known = false; });
  ASSERT_TRUE(registry.WaitUntil([](const State& state) { return state.registrations.size() == 2; }));
  int beats = 0;
  registry.With([&](State& state) { beats = state.beats; });
  EXPECT_TRUE(registry.WaitUntil([&](const State& state) { return state.beats > beats; }));
}

TEST_F(CoordinatorLinkTest, WaitsForACoordinatorThatComesLaterAndComesBack) {
  auto registry = std::make_unique<ScriptedRegistry>();
  const int port = registry->port();
  const std::string address = registry->address();
  registry = nullptr;
  Connect(address);
  std::this_thread::sleep_for(milliseconds(150));
  for (int round = 0; round < 2; ++round) {
    registry = std::make_unique<ScriptedRegistry>(port);
    if (round > 0) registry->With([](State& state) { state.known = false; });
    ASSERT_TRUE(registry->WaitUntil([](const State& state) { return state.registrations.size() == 1; })) << round;
    ASSERT_TRUE(registry->WaitUntil([](const State& state) { return state.beats >= 2; })) << round;
    registry = nullptr;
  }
}

TEST_F(CoordinatorLinkTest, DrainIsToldAndLeaveIsSaid) {
  ScriptedRegistry registry;
  Connect(registry.address());
  ASSERT_TRUE(registry.WaitUntil([](const State& state) { return state.beats >= 1; }));
  link_->Drain();
  ASSERT_TRUE(registry.WaitUntil([](const State& state) { return state.draining_beats >= 2; }));
  link_->Leave();
  int beats = 0;
  registry.With([&](State& state) {
    EXPECT_EQ(state.leaves, 1);
    beats = state.beats;
  });
  std::this_thread::sleep_for(milliseconds(100));
  registry.With([&](State& state) { EXPECT_EQ(state.beats, beats); });
}

TEST_F(CoordinatorLinkTest, EndsWhenAskedToDrain) {
  ScriptedRegistry registry;
  registry.With([](State& state) { state.ask_to_drain = true; });
  Connect(registry.address());
  EXPECT_TRUE(End().ok());
}

TEST_F(CoordinatorLinkTest, EndsWhenRefused) {
  ScriptedRegistry registry;
  registry.With([](State& state) {
    state.register_status = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "another version");
  });
  Connect(registry.address());
  EXPECT_EQ(End(), absl::InvalidArgumentError("another version"));
}

TEST_F(CoordinatorLinkTest, EndsWhenTheCoordinatorIsGoneForLong) {
  auto registry = std::make_unique<ScriptedRegistry>();
  Connect(registry->address(), milliseconds(300));
  ASSERT_TRUE(registry->WaitUntil([](const State& state) { return state.beats >= 1; }));
  registry = nullptr;
  EXPECT_EQ(End().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CoordinatorLinkTest, ABusyCoordinatorIsTriedAgain) {
  ScriptedRegistry registry;
  registry.With([](State& state) { state.register_status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "starting"); });
  Connect(registry.address());
  ASSERT_TRUE(registry.WaitUntil([](const State& state) { return state.registrations.size() >= 3; }));
  registry.With([](State& state) { state.register_status = grpc::Status::OK; });
  EXPECT_TRUE(registry.WaitUntil([](const State& state) { return state.beats >= 1; }));
}

}  // namespace
}  // namespace jacserve::worker
