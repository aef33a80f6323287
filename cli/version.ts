/** The version that `gpu-gate --version` prints and a SARIF report names: the package's. */
import settings from "../package.json" with { type: "json" };

export const VERSION: string = settings.version;
