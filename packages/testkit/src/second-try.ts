import type { Reporter, TestCase } from "vitest/node";

/** Names each test that failed and then passed: it is unstable, and a defect of the test or of the product. */
export default class SecondTryReporter implements Reporter {
  onTestCaseResult(test: TestCase): void {
    if (test.diagnostic()?.flaky !== true) return;
    const [error] = test.result().errors ?? [];
    const line = (error?.message ?? "").split("\n", 1)[0];
    console.log(` UNSTABLE  ${test.module.relativeModuleId} > ${test.fullName}\n${line}`);
  }
}
