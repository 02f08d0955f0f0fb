/**
 * Each test file loads this package's modules for itself, as some files replace modules (`vi.mock`):
 * what another file has loaded keeps what it was loaded with. Dependencies stay loaded, as they are
 * what takes long.
 */
import { vi } from "vitest";

vi.resetModules();
