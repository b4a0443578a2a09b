// One script and one style, without hashes in their names: the binary holds them.
import { defineConfig } from "vite";

export default defineConfig({
  build: {
    outDir: "dist",
    emptyOutDir: true,
    modulePreload: false,
    lib: { entry: "src/main.ts", formats: ["iife"], name: "tilewright", fileName: () => "page.js", cssFileName: "page" },
  },
});
