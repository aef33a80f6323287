/**
 * Watches every test file of Node for secrets that leave their one place: a setup file (vitest.config.ts). A leak fails the test
 * that runs, by name, with the place and without the value.
 */
import "./taps.ts";
import { watchThisFile } from "./watch.ts";

watchThisFile();
