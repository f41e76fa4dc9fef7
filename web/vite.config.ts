import { defineConfig } from "vite";

// The built files are committed (src/ottla/console/static), so that nobody who installs Ottla needs Node.
export default defineConfig({
  build: {
    outDir: "../src/ottla/console/static",
    emptyOutDir: true,
    assetsDir: "assets",
    modulePreload: { polyfill: false },
    target: "es2022",
    sourcemap: false,
  },
  server: { proxy: { "/api": { target: "http://127.0.0.1:9180", ws: true } } },
});
