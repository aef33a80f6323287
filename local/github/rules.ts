export const githubRules: readonly unknown[] = [];
