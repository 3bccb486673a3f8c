use skill_sdk::testing::FakeHost;

use super::*;
