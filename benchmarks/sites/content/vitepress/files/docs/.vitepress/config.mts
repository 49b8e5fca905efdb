import { defineConfig } from 'vitepress'
import { guides } from './menu'

export default defineConfig({
  title: 'Tidewater',
  cleanUrls: true,
  srcExclude: ['parts/**'],
  locales: {
    root: { label: 'English', lang: 'en' },
    de: { label: 'Deutsch', lang: 'de', link: '/de/' },
  },
  themeConfig: {
    nav: [
      { text: 'Quick start', link: '/guides/quickstart' },
      { text: 'Retries', link: '/guides/retries#schedule' },
    ],
    sidebar: {
      '/guides/': guides,
      '/reference/': [
        {
          text: 'Reference',
          base: '/reference/',
          items: [
            { text: 'Settings', link: 'settings' },
            { text: 'Client', link: 'client' },
            { text: 'Errors', link: 'errors' },
          ],
        },
      ],
    },
  },
})
